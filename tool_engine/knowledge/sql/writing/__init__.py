"""How do the calls that wait come into the database?"""
