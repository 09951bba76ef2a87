"""Which definitions does a folder hold, and when do they change?"""
