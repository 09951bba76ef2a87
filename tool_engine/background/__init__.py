"""How do tasks, calls that outlive their caller, wait, run and end?"""
