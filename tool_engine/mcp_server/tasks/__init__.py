"""How do long calls of clients become tasks that they follow?"""
