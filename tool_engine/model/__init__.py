"""Which data do all stages share? Pure, without I/O."""
