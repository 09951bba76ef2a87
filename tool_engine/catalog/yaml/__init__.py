"""How is YAML text read so that it means only what its author sees?"""
