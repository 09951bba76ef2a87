"""Which definitions does a folder hold right now, and when do they change?"""
