"""How do the tools of other programs run, which the Model Context Protocol reaches?"""
