"""How do processes share limits?"""
