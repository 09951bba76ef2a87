"""How do the agents of other frameworks use these tools, and an engine theirs?"""
