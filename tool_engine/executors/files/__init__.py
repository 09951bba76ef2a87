"""The file tools: they read, write, edit, list and search below one declared folder."""
