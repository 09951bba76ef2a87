"""How is a running engine watched from outside? Subscribers to its events."""
