"""How do tools and replies look in the formats of models?"""
