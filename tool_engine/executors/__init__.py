"""How does a tool run? One small file per kind; `executor_registry.py` has the table."""
