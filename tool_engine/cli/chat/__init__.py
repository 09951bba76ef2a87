"""How does a person at the command line talk with a model that uses the tools?"""
