"""Stage 6, record: what was called, by whom, and how did it end?"""
