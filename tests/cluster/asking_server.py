"""A server of MCP whose tool asks a provider: `python asking_server.py`."""

from __future__ import annotations

import asyncio
import os
import time

from mcp.server import MCPServer

server = MCPServer("asking", version="1.0")


@server.tool()
async def ask(words: str) -> str:
    """Ask the provider, and be with it for a moment."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(os.environ["PROVIDER"]))
    writer.write(f"{words} none {time.monotonic()}\n".encode())
    await reader.readline()
    await asyncio.sleep(0.01)
    # What the provider has not heard of has not ended for it.
    writer.write_eof()
    await reader.read()
    writer.close()
    return words


if __name__ == "__main__":
    server.run()
