"""What do commands tell of calls that were made?"""
