"""Which definitions load but are bad, in one file per subject?"""
