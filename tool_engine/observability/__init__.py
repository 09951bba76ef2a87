"""How is a running engine watched from outside? By subscribers to its events."""
