"""How does a model go on, turn by turn, until it has an answer, and which models can be asked?"""
