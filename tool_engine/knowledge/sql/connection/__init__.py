"""Where is the database, and how is it opened?"""
