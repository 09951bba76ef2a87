"""Runs command lines in this process, on a folder of tools of its own."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tool_engine.cli.app import run

DEFINITIONS = {
    "echo": """
name: echo
version: "1.0.0"
description: Returns the message. Use it to test.
tags: [test, text]
effect: read
parameters:
  - {name: message, type: string, required: true, description: What to return}
  - {name: times, type: integer, default: 1, description: How often, validation: {min: 1, max: 3}}
entry: {type: builtin, handler: echo}
""",
    "calculator": """
name: calculator
description: Calculates.
tags: [math]
parameters:
  - {name: expression, type: string, required: true, description: Such as 1+2}
entry: {type: builtin, handler: calculator}
""",
    "fetch": """
name: fetch
description: Fetches a page [bold]at once[/bold].
category: http
tags: [text]
timeout: 5
rate: 10/s
concurrency: {bucket: web, priority: 2}
retry: {attempts: 2}
effect: read
parameters:
  - {name: url, type: string, required: true, description: Where}
entry:
  type: http
  request: {url: "http://127.0.0.1:9/{url}", headers: {Authorization: secret-value}}
  allow: ["127.0.0.1:9"]
""",
}


class Ended(NamedTuple):
    """How a command line ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one JSON document on stdout."""
        return json.loads(self.out)


Command = Callable[..., Ended]


@pytest.fixture
def command(
    tools: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Command:
    """Runs `tool-engine` with words, in this process, on the folder `tools`."""
    monkeypatch.setenv("TOOL_ENGINE_TOOLS", str(tools))
    monkeypatch.setenv("COLUMNS", "80")
    # A command puts the project's folder there.
    monkeypatch.setattr("sys.path", list(sys.path))

    def call(*words: str) -> Ended:
        capsys.readouterr()
        code = run(words)
        out, err = capsys.readouterr()
        return Ended(code, out, err)

    return call


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """A folder with three good tools."""
    folder = tmp_path / "tools"
    folder.mkdir()
    for name, text in DEFINITIONS.items():
        (folder / f"{name}.yaml").write_text(text.lstrip(), encoding="utf-8")
    return folder
