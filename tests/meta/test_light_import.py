"""Does `import tool_engine` load only what every user needs?"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import tool_engine

EXTRAS = {
    "agents",
    "aiosqlite",
    "anthropic",
    "asyncpg",
    "google.genai",
    "json_repair",
    "landlock",
    "langchain_core",
    "llama_index",
    "mcp",
    "openai",
    "opentelemetry",
    "prometheus_client",
    "pydantic",
    "pydantic_ai",
    "ray",
    "sqlalchemy",
    "starlette",
    "uvicorn",
}

LOADED_ON_FIRST_USE = {
    "aiohttp",
    "docstring_parser",
    "hashlib",
    "jmespath",
    "jsonschema",
    "pathlib",
    "rich",
    "statistics",
    "tool_engine.catalog.definition.building",
    "tool_engine.catalog.change.compatibility",
    "tool_engine.catalog.code.adapting",
    "tool_engine.catalog.code.function",
    "tool_engine.executors.calculator",
    "tool_engine.protocols",
    "tool_engine.reloading",
    "tool_engine.subagent",
    "typer",
    "watchdog",
    "yaml",
}


MOST_MODULES = 200
"""Modules of the package itself that an import loads; each is a file to find, read and run."""


def loaded_by(statement: str) -> set[str]:
    """The modules that a fresh interpreter has loaded after the statement."""
    run = subprocess.run(
        [sys.executable, "-c", f"{statement}; import json, sys; print(json.dumps([*sys.modules]))"],
        capture_output=True,
        text=True,
        check=True,
        timeout=50,
    )
    return set(json.loads(run.stdout))


@pytest.mark.parametrize(
    ("kind", "heavy"), [("extra", EXTRAS), ("on first use", LOADED_ON_FIRST_USE)]
)
def test_light_import(kind: str, heavy: set[str]) -> None:
    """An engine loads no extra, and no library that only some calls need."""
    loaded = loaded_by("from tool_engine import ToolEngine")
    assert "tool_engine.engine" in loaded
    own = [name for name in loaded if name.partition(".")[0] == "tool_engine"]
    assert len(own) < MOST_MODULES
    assert heavy & loaded == set(), f"loaded too early ({kind})"


def test_the_names_alone_load_nothing() -> None:
    """`--help` and completion need no engine, and no event loop either."""
    loaded = loaded_by("import tool_engine")
    own = {name for name in loaded if name.partition(".")[0] == "tool_engine"}
    assert own == {"tool_engine", "tool_engine.late_names"}
    assert "asyncio" not in loaded


def test_what_is_loaded_on_first_use_is_there() -> None:
    """Every public name can be imported, listed and taken with a star; no other name is there."""
    loaded = loaded_by("from tool_engine import *; ToolSubAgent, CalculatorExecutor")
    assert {"tool_engine.subagent", "tool_engine.executors.calculator"} <= loaded
    assert set(tool_engine.__all__) <= set(dir(tool_engine))
    assert all(hasattr(tool_engine, name) for name in tool_engine.__all__)
    assert not hasattr(tool_engine, "ToolSubagent")
