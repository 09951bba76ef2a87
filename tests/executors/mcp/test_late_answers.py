"""Is a server that is slow to say which revisions it speaks taken for what it is?"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mcp_server.test_transports import serving
from tool_engine import MCPSource, ToolEngine, ToolEngineConfig


async def test_a_first_answer_that_is_late(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Over HTTP it is waited for as long as a connection may take, however short the SDK waits."""
    monkeypatch.setattr("mcp.client.session.DISCOVER_TIMEOUT_SECONDS", 0.0)
    for name in ("there", "here"):
        (tmp_path / name).mkdir()
    async with (
        ToolEngine(ToolEngineConfig(tools_directory=str(tmp_path / "there"))) as there,
        ToolEngine(ToolEngineConfig(tools_directory=str(tmp_path / "here"))) as here,
        serving(there) as url,
    ):

        @there.tool
        async def note() -> str:
            """Note."""
            return "noted"

        source = MCPSource("slow", url=url)
        await here.add_source(source)
        peer = source.connection._peer
        assert peer is not None
        assert peer.is_modern, "it was taken for a server of 2025-11-25"
        result = await here.execute("note")
        assert result.output["content"][0]["text"] == "noted"
