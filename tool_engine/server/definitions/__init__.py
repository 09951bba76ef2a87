"""Definitions over HTTP: what they say, whether they hold, and who approved them."""
