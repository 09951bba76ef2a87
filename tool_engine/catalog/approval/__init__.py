"""Which tools and groups are approved, and which may be called?"""
