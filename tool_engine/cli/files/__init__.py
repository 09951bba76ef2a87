"""What do commands do with files of tools?"""
