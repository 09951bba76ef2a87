"""What is a project: its settings, and the files that it begins with?"""
