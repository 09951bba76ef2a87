"""The program that the protocol's suite starts as a client: it has another process play.

`python conformance_program.py SOCKET URL`; a process for each scenario that imports the engine
would take most of the time.
"""

import json
import os
import socket
import sys

names = ("MCP_CONFORMANCE_SCENARIO", "MCP_CONFORMANCE_CONTEXT")
with socket.socket(socket.AF_UNIX) as player:
    player.connect(sys.argv[1])
    asked = [os.environ.get(name, "") for name in names]
    player.sendall(json.dumps([*asked, sys.argv[2]]).encode() + b"\n")
    print(player.makefile().read(), file=sys.stderr)
