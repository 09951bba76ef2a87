"""How do commands show the calls that were made?"""
