"""How do tools read, write and search files below one declared folder?"""
