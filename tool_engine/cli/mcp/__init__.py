"""How does the command line serve tools to clients of the Model Context Protocol?"""
