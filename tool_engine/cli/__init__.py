"""The command line: what can a person or a script do with a folder of tool files?"""
