"""The words of each command, apart from what it does."""
