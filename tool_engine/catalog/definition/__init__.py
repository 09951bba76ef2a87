"""Which tool or group does a definition describe, and is it right?"""
