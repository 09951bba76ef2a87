"""Which tools are there? From definitions in files and code to one searchable snapshot."""
