"""What does one conversation keep under a name, and where did it come from?"""
