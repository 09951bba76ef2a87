"""What can people and scripts do with a folder of tool files?"""
