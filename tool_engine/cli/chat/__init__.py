"""How does a person talk with a model that uses the tools?"""
