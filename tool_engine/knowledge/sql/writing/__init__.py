"""How do waiting calls get into the database?"""
