"""Which tables does the database have, and what stands in a row?"""
