"""Is what a program or a file gives to a value allowed, and what may have been meant?"""
