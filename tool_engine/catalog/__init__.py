"""Which tools are there, as one searchable snapshot of all definitions?"""
