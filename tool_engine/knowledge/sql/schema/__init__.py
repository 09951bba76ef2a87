"""Which tables does the database have, and what does a row contain?"""
