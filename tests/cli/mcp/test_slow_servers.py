"""What does a command say, and do, where a server takes long to start?"""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from tests.cli.mcp.test_servers import Run, cli, name_servers, place
from tests.mcp_servers.programs import PROGRAM, program
from tool_engine import ToolEngineConfig
from tool_engine.cli import slow_servers
from tool_engine.cli.settings import Settings

__all__ = ["cli", "place"]
SLOW = f"""
import pathlib, runpy, time
while not pathlib.Path("gate").exists():
    time.sleep(0.01)
runpy.run_path({str(PROGRAM)!r}, run_name="__main__")
"""
WAITING = "waiting for 'slow' to start; Ctrl-C gives up\n"


class Opening(io.StringIO):
    """Standard error that lets the server start when the command says that it waits."""

    def write(self, text: str) -> int:
        """Take a text."""
        if "waiting for" in text:
            Path("gate").touch()
        return super().write(text)


@pytest.fixture
def slow(place: Path) -> str:
    (place / "tools").mkdir()
    (place / "slow.py").write_text(SLOW)
    return name_servers(place, slow=program("slow.py"))


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("call", "echo", "text=hi"), "hi\n"),
        (("mcp", "call", "slow", "echo", "text=hi"), "hi\n"),
        (("mcp", "list"), "slow\tis connected"),
        (("show", "echo"), "origin\tmcp:slow"),
        (("list",), "\necho\t"),
        (("lock",), "tools.lock: "),
    ],
    ids=" ".join,
)
def test_a_command_waits_for_it_and_says_so(
    slow: str,
    cli: Run,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    found: str,
) -> None:
    """What comes later is of no use to a command that ends."""
    monkeypatch.setattr(slow_servers, "_PATIENCE", 0.05)
    monkeypatch.setattr(sys, "stderr", said := Opening())
    code, out, _ = cli("--mcp-config", slow, *words)
    assert (code, WAITING in said.getvalue()) == (0, True), said.getvalue()
    assert found in out


def test_a_tool_of_a_server_that_has_not_started(place: Path, cli: Run) -> None:
    """The tool may be the server's: it is said why that gives none, and what to do."""
    (place / "tools").mkdir()
    (place / "slow.py").write_text(SLOW)
    own = {"tool-engine": {"connect_timeout": 0.3}}
    config = name_servers(place, slow={**program("slow.py"), **own})
    cure = "the server 'slow' gives no list: it did not answer within 0.3 s; raise its"
    cure += " connect_timeout if it takes longer to start"
    for words in (("call", "echo", "text=hi"), ("task", "start", "echo", "text=hi")):
        records = ("--records", "sqlite:///calls.db")
        code, _, err = cli(*records, "--mcp-config", config, *words)
        said = "error: there is no tool 'echo' in tools; it may be of a server that gives none: "
        assert (code, err.splitlines()[-1].startswith(said)) == (2, True), err
        assert err.endswith(f"{cure}\n")
    (place / "gate").touch()
    own["tool-engine"]["connect_timeout"] = 60
    name_servers(place, slow={**program("slow.py"), **own})
    assert cli("--mcp-config", config, "call", "echo", "text=hi")[:2] == (0, "hi\n")


def test_only_commands_that_end_wait_so_long() -> None:
    """What serves has its tools later, and begins with what is there."""
    usual, longest = ToolEngineConfig().mcp_start_timeout, 3_600
    assert Settings(".").engine_config().mcp_start_timeout > longest
    for changes in ({"watch_for_changes": True}, {"auto_reload": True}):
        assert Settings(".").engine_config(**changes).mcp_start_timeout == usual
    assert Settings(".").engine_config(mcp_start_timeout=3.0).mcp_start_timeout == 3.0
