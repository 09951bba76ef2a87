"""How does a person talk with a model, and look at kept conversations?"""
