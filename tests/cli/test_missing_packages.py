"""A command that needs a package which is not installed says how to install it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tool_engine.cli.extras import explain_missing_package

BARE = """
import json, sys
from contextlib import redirect_stderr, redirect_stdout
from importlib.machinery import PathFinder
from io import StringIO

CORE = set(json.loads(sys.argv[1]))

class Core(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        spec = super().find_spec(name, path, target)
        is_of_package = spec and "site-packages" in str(spec.origin)
        return None if is_of_package and name.partition(".")[0] not in CORE else spec

sys.meta_path[:] = [Core if each is PathFinder else each for each in sys.meta_path]
from tool_engine.cli.app import run

for line in sys.stdin:
    words = json.loads(line)
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            code = run(words)
        except BaseException as error:
            code = repr(error)
    print(json.dumps([words, code, out.getvalue(), err.getvalue()]))
"""
POSTGRES = "postgresql://u@127.0.0.1:1/x"
NEEDS = {
    "server": (
        ("demo", "--studio"),
        ("serve", "--no-auth", "--port", "0"),
        ("serve", "--no-auth", "--port", "0", "--studio"),
    ),
    "mcp": (
        ("mcp", "serve"),
        ("--mcp-config", "servers.json", "mcp", "list"),
        ("--mcp-config", "servers.json", "mcp", "import", "one"),
    ),
    "sql": (
        ("history",),
        ("stats",),
        ("sessions",),
        ("events",),
        ("export",),
        ("simulate",),
        ("--records", "sqlite:///calls.db", "task", "start", "echo", "message=hi"),
    ),
    "postgres": (
        ("--cluster", POSTGRES, "cluster"),
        ("--cluster", POSTGRES, "call", "echo", "message=hi"),
    ),
    "ray": (("demo", "--fleet"),),
    "openai": (("chat", "--model", "openai:x", "hello"),),
    "anthropic": (("chat", "--model", "anthropic:x", "hello"),),
    "gemini": (("chat", "--model", "gemini:x", "hello"),),
}
"""Extra -> command lines that need it."""


def packages_of_the_core() -> list[str]:
    """The modules of what `pip install tool-engine` brings."""
    from importlib.metadata import packages_distributions, requires

    from packaging.requirements import Requirement

    wanted, known = ["tool-engine"], set[str]()
    while wanted:
        name = wanted.pop().lower().replace("_", "-")
        if name in known:
            continue
        known.add(name)
        for text in requires(name) or ():
            need = Requirement(text)
            if need.marker is None or need.marker.evaluate({"extra": ""}):
                wanted.append(need.name)
    return [
        module
        for module, owners in packages_distributions().items()
        if known & {each.lower().replace("_", "-") for each in owners}
    ]


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, ...], list[Any]]:
    """How each command line ends where the core alone is installed."""
    folder = tmp_path_factory.mktemp("bare")
    (folder / "tools").mkdir()
    (folder / "tools" / "echo.yaml").write_text(
        "name: echo\ndescription: Returns the message.\neffect: read\n"
        "parameters: [{name: message, type: string}]\nentry: {type: builtin, handler: echo}\n"
    )
    (folder / "servers.json").write_text('{"mcpServers": {"one": {"command": "true"}}}')
    lines = "".join(json.dumps(each) + "\n" for rows in NEEDS.values() for each in rows)
    done = subprocess.run(
        [sys.executable, "-c", BARE, json.dumps(packages_of_the_core())],
        input=lines,
        cwd=folder,
        env={"PYTHONPATH": str(Path(__file__).parents[2]), "HOME": str(folder), "PATH": ""},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    return {tuple(words): rest for words, *rest in rows}


@pytest.mark.parametrize(
    ("extra", "words"), [(extra, words) for extra, rows in NEEDS.items() for words in rows]
)
def test_a_command_says_what_to_install(
    ended: dict[tuple[str, ...], list[Any]], extra: str, words: tuple[str, ...]
) -> None:
    """One sentence with the extra that brings it, no traceback, and exit code 1."""
    code, _, err = ended[words]
    assert code == 1, (code, err)
    assert re.search(rf"pip install 'tool-engine\[{extra}\]'", err), err
    assert "Traceback" not in err
    assert "being connected" not in err


def test_a_package_of_no_extra_is_an_error_of_the_program() -> None:
    """What is of no extra is not told to be one: its traceback is what helps."""
    assert explain_missing_package(ModuleNotFoundError("no", name="my_own")) is None
    assert explain_missing_package(ModuleNotFoundError("no")) is None
