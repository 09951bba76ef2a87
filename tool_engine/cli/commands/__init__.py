"""Which words may follow each command?"""
