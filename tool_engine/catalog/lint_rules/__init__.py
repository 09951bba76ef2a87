"""Which flaws can a definition that loads still have?"""
