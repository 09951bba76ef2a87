"""Which tools may the model of one conversation call?"""
