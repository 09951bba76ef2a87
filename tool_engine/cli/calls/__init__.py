"""How does the command line make calls?"""
