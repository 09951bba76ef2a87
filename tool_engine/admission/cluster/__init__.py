"""How do all processes that share a database keep to one limit?"""
