"""How does `python -m tool_engine.cli` start?"""

from tool_engine.cli.start import main

main()
