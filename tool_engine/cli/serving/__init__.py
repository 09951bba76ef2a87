"""How is an engine served over HTTP, and to whom?"""
