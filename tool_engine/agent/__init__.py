"""How does a conversation with a model run, turn by turn, and which models are there?"""
