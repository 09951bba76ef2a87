"""Tasks: calls that outlive their caller."""
