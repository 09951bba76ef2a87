"""How does a JSON Schema become a form, and what is typed there arguments?"""
