"""Programs as tools: arguments, processes, what is kept of their output."""
