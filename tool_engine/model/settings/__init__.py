"""Which values may a setting hold?"""
