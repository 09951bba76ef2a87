"""Which MCP servers do the settings files of other programs name?"""
