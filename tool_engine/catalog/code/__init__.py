"""Which tool does a Python function describe?"""
