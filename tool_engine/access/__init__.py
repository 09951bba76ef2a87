"""Who may ask for what over HTTP, and how are requests read safely?"""
