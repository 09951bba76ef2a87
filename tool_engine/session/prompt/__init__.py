"""What is a model told once, at the beginning?"""
