"""Is the value of a setting allowed, and which one may have been meant?"""
