"""What does a server offer beside tools, and what may be typed into it?"""
