"""A server of MCP whose tool asks a provider: `python asking_server.py`."""

from __future__ import annotations

from mcp.server import MCPServer

from tests.cluster.visiting import visit_provider

server = MCPServer("asking", version="1.0")


@server.tool()
async def ask(words: str) -> str:
    """Ask the provider, and be with it for a moment."""
    return await visit_provider(words, "none")


if __name__ == "__main__":
    server.run()
