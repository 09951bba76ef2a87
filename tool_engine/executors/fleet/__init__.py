"""How does a Python handler run on the machines of a fleet?"""
