"""Tools whose YAML declares one SQL statement."""
