"""How does `python -m tool_engine` start?"""

from tool_engine.cli.start import main

main()
