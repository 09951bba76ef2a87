"""How does a tool run whose steps call other tools?"""
