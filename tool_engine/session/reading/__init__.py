"""What does a model read of the result of a call?"""
