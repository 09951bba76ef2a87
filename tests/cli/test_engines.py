"""Is the engine that `--app module:name` means found, and is each mistake told with its cure?"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tool_engine import ToolEngine
from tool_engine.cli.engines import load_app, wait_for_app
from tool_engine.cli.failures import CommandError

MODULE = """
from tool_engine import ToolEngine

engine = ToolEngine()

class Rooms:
    engine = engine

def make():
    return ToolEngine()

async def make_later():
    return ToolEngine()

def fail():
    raise ValueError("no database")

async def fail_later():
    raise ValueError("no database")

async def nothing():
    pass

text = "not an engine"
"""


@pytest.fixture(autouse=True)
def _module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "app_of_test_engines.py").write_text(MODULE, encoding="utf-8")
    (tmp_path / "broken_of_test_engines.py").write_text("import nothing_of_this_name", "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.parametrize("name", ["engine", "make", "Rooms.engine", "make_later"])
def test_an_engine_is_found(name: str) -> None:
    """An engine, one inside something else, or a function that makes one, at once or later."""
    text = f"app_of_test_engines:{name}"
    assert isinstance(asyncio.run(wait_for_app(load_app(text), text)), ToolEngine)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("app_of_test_engines", "--app takes module:name"),
        (":engine", "--app takes module:name"),
        ("app_of_test_engines:", "--app takes module:name"),
        ("no_such_module_at_all:engine", "cannot be imported: ModuleNotFoundError"),
        ("broken_of_test_engines:engine", "nothing_of_this_name"),
        ("app_of_test_engines:engin", "there is no 'engin' in app_of_test_engines"),
        ("app_of_test_engines:text", "is no ToolEngine but of the type str"),
        ("app_of_test_engines:ToolEngine", "is no ToolEngine but a class"),
        ("app_of_test_engines:fail", "failed: ValueError: no database"),
        ("app_of_test_engines:print", "there is no 'print'"),
        ("app_of_test_engines:fail_later", "failed: ValueError: no database"),
        ("app_of_test_engines:nothing", "is no ToolEngine but of the type NoneType"),
    ],
)
def test_a_mistake_is_told(text: str, message: str) -> None:
    """Whoever writes the words sees what is wrong with them, not a traceback."""
    with pytest.raises(CommandError) as caught:
        asyncio.run(wait_for_app(load_app(text), text))
    assert message in str(caught.value)
    assert caught.value.exit_code == 2
