"""Which servers of tools does an engine use, and how do they come and go?"""
