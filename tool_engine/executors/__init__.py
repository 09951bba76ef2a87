"""How does a tool run? One small file per kind of executor; `registry.py` has the table."""
