"""How does a tool talk HTTP?"""
