"""How is YAML read so that it means what its author sees?"""
