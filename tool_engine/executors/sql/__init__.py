"""How does a tool run whose YAML declares one SQL statement?"""
