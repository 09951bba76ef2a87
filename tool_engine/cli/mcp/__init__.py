"""How does the command line serve tools over MCP, and use the tools of MCP servers?"""
