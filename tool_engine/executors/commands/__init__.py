"""How do programs run as tools, and what is kept of their output?"""
