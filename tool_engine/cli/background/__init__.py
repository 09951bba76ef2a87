"""How does the command line start tasks, follow them and end them?"""
