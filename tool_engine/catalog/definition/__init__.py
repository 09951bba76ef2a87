"""Which tool or group does a definition describe, and what is wrong with it?"""
