"""Forms for the arguments of a tool, made from their JSON Schema, and read back exactly."""
