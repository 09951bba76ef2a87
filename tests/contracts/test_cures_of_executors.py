"""What an error of an executor says to do is done, and the tool works.

The rows are as those of `test_cures_of_errors`, which counts what is tried. Those of file tools, of
HTTP, SQL and workflow tools, and of the entries of commands have files of their own.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.contracts.test_cures_of_errors import HEAD, names_cure
from tests.executors.python.apart import Apart
from tool_engine import (
    CallbackApprover,
    EchoExecutor,
    Tool,
    ToolCategory,
    ToolEngine,
    ToolEngineConfig,
    ToolEngineError,
    ToolExecutionContext,
    ToolExecutionError,
)
from tool_engine.catalog.approval.lock import ToolLock
from tool_engine.cli.files.checking import check_files
from tool_engine.executors.number import CalculationError, parse_number
from tool_engine.executors.secrets import MAX_SECRET_BYTES
from tool_engine.executors.tool_search import ToolSearchExecutor

BOUND = 30.0
NUMBERS = "executors/number.py: the most is …"
LENGTH = "executors/calculator.py: the most is …"
FINITE = "executors/calculator.py: write one that is finite"
USAGE = "executors/arithmetic.py: write …"
SUMS = [
    (USAGE, "sqrt(1, 2)", "sqrt(2)"),
    (USAGE, "root(8)", "root(8, 3)"),
    (FINITE, "inf", "9e300"),
    (LENGTH, "1+" * 500 + "1", "1+" * 499 + "1 "),
]
OTHER_CODE = (
    "executors/python/importing.py: await engine.reload(), and start the program anew if that does "
    "not help"
)
SLOW = "executors/python/worker_pool.py: raise its timeout or ask for less"
DIGITS = "executors/python/worker.py: send a number with so many digits as text"
MODULE = (
    "executors/python/handler_source.py: install the package, or add the folder that it is in to "
    "PYTHONPATH"
)
GENERATOR = "executors/python/handler_source.py: return the whole value instead"
TWICE = "executors/executor_registry.py: register the one that you mean with register_executor"
BROKEN = "executors/executor_registry.py: repair or uninstall that package"
SECRET = "executors/secrets.py: the tool needs it: …"
VARIABLE = "executors/secrets.py: …: set it before the engine starts"
KEY = "executors/templates.py: keys are texts: write … in quotes"
TEXT = "executors/templates.py: write a text"
SEARCH = "executors/tool_search.py: run it by a ToolEngine"
TRIED = {row[0] for row in SUMS}
TRIED |= {
    NUMBERS,
    OTHER_CODE,
    SLOW,
    DIGITS,
    MODULE,
    GENERATOR,
    TWICE,
    BROKEN,
    SECRET,
    VARIABLE,
    KEY,
    TEXT,
    SEARCH,
}


def check(row: str, error: object) -> None:
    """The message ends as the row says."""
    assert names_cure(row, str(error)), error


def define(tools: Path, name: str, entry: dict[str, Any], *parameters: str, **more: Any) -> None:
    """Writes a definition; its parameters are required texts."""
    tools.mkdir(exist_ok=True)
    declared = [
        {"name": each, "type": "string", "description": "It", "required": True}
        for each in parameters
    ]
    whole = {**HEAD, "name": name, "parameters": declared, "entry": entry, **more}
    (tools / f"{name}.yaml").write_text(json.dumps(whole))


def engine_of(tools: Path, **settings: Any) -> ToolEngine:
    approver = CallbackApprover(lambda _: True)
    config = ToolEngineConfig(str(tools), auto_reload=False, **settings)
    return ToolEngine(config, approver=approver)


async def error_of(tools: Path, name: str, **params: Any) -> str:
    """What a call of the tool says is wrong, or its definition; empty: nothing."""
    async with asyncio.timeout(BOUND), engine_of(tools) as engine:
        if engine.load_errors:
            return str(engine.load_errors)
        return (await engine.execute(name, params)).error or ""


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """The folder of definitions; nothing else is in it."""
    (tmp_path / "tools").mkdir()
    return tmp_path / "tools"


# Sums.


@pytest.mark.parametrize(("row", "broken", "healed"), SUMS)
async def test_sums(tools: Path, row: str, broken: str, healed: str) -> None:
    """A model that writes it as the message says has its result."""
    define(tools, "calculator", {"type": "builtin"}, "expression")
    message = await error_of(tools, "calculator", expression=broken)
    check(row, message)
    if row is USAGE:
        assert f"write {healed.partition('(')[0]}(" in message
    assert await error_of(tools, "calculator", expression=healed) == ""


def test_number_of_too_many_digits() -> None:
    """One of as many digits as the message says is read; in an expression the length is first."""
    with pytest.raises(CalculationError) as raised:
        parse_number("9" * 2_000)
    check(NUMBERS, raised.value)
    most = int(str(raised.value).rpartition(" ")[2])
    assert str(parse_number("9" * most).number) == "9" * most


# Handlers.


def said_by(program: str, tools: Path) -> str:
    """What a call of `t` says in a process of its own, at the end of `program`."""
    ending = f"""
async def main():
    async with ToolEngine(ToolEngineConfig({str(tools)!r}, auto_reload=False)) as engine:
        print((await engine.execute("t", {{}})).error)
asyncio.run(main())
"""
    head = "import asyncio, os, signal\nfrom tool_engine import ToolEngine, ToolEngineConfig\n"
    done = subprocess.run(
        [sys.executable, "-c", head + program + ending],
        capture_output=True,
        text=True,
        timeout=BOUND,
        check=False,
        cwd=Path(__file__).parents[2],
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture
def hands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Path]]:
    """Writes the module `hands_of_executors`, and forgets it at the end."""
    monkeypatch.setattr("sys.path", list(sys.path))

    def write(text: str, folder: str = "code") -> Path:
        (tmp_path / folder).mkdir(exist_ok=True)
        file = tmp_path / folder / "hands_of_executors.py"
        file.write_text(text)
        return file

    yield write
    sys.modules.pop("hands_of_executors", None)


HANDLER = {"type": "custom", "handler": "hands_of_executors:run"}


async def test_module_that_is_not_on_the_path(
    tools: Path, hands: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With its folder in PYTHONPATH a new process finds it; so it does where it is installed."""
    file = hands("def run(): return 1\n")
    define(tools, "t", HANDLER)
    check(MODULE, await error_of(tools, "t"))
    monkeypatch.setenv("PYTHONPATH", str(file.parent))
    assert await asyncio.to_thread(said_by, "", tools) == "None"
    sys.path.append(str(file.parent))
    assert await error_of(tools, "t") == ""


def test_a_generator(tools: Path, hands: Callable[..., Path]) -> None:
    """The source shows it, before anything is imported."""
    file = hands("def run(): yield 1\n")
    sys.path.insert(0, str(file.parent))
    define(tools, "t", HANDLER)
    (checked,) = check_files([str(tools)])
    check(GENERATOR, checked.problems[0])
    file.write_text("def run(): return [1]\n", encoding="utf-8")
    (checked,) = check_files([str(tools)])
    assert not checked.problems


async def test_other_code_than_was_approved(tools: Path, hands: Callable[..., Path]) -> None:
    """A reload takes what was approved meanwhile; a new program what this one cannot import."""
    file = hands("def run(): return 'old'\n")
    sys.path.insert(0, str(file.parent))
    define(tools, "t", HANDLER)
    async with asyncio.timeout(BOUND), engine_of(tools, lock="enforce") as engine:
        await engine.lock_tools()
        hands("def run(): return 'new'\n")
        check(OTHER_CODE, (await engine.execute("t")).error)
        async with engine_of(tools, lock="enforce") as other:
            await other.lock_tools()
        await engine.reload()
        assert (await engine.execute("t")).output == {"result": "new"}
        hands("def run(): return 'newest'\n")
        async with engine_of(tools, lock="enforce") as other:
            await other.lock_tools()
        await engine.reload()
        assert not (await engine.execute("t")).is_success
    lock = await asyncio.to_thread(ToolLock.read, f"{tools}.lock")
    assert lock.tools["t"].handler
    # What a new program does not have yet.
    del sys.modules["hands_of_executors"]
    async with asyncio.timeout(BOUND), engine_of(tools, lock="enforce") as engine:
        assert (await engine.execute("t")).output == {"result": "newest"}


async def test_handler_in_a_process_that_is_slow(tools: Path, hands: Callable[..., Path]) -> None:
    """With more time, and with less to do, it ends in time."""
    file = hands("import time\ndef run(q): time.sleep(float(q)); return q\n")
    sys.path.insert(0, str(file.parent))
    define(tools, "t", {**HANDLER, "config": {"isolation": "process", "workers": 1}}, "q")
    executor = Apart()
    async with asyncio.timeout(BOUND), engine_of(tools) as engine:
        tool = engine.index.get_or_raise("t")

        async def run(q: str, seconds: float) -> object:
            deadline = asyncio.get_running_loop().time() + seconds
            return await executor.execute(tool, {"q": q}, ToolExecutionContext(deadline=deadline))

        try:
            assert await run("0", BOUND) == "0"
            with pytest.raises(TimeoutError) as raised:
                await run("1.2", 0.6)
            check(SLOW, raised.value)
            assert await run("0", 5.0) == "0"
            assert await run("1.2", BOUND) == "1.2"
        finally:
            await executor.close()


async def test_a_number_that_does_not_fit_a_process(
    tools: Path, hands: Callable[..., Path]
) -> None:
    """As text it goes."""
    file = hands("def run(q): return len(q)\n")
    sys.path.insert(0, str(file.parent))
    entry = {**HANDLER, "config": {"isolation": "process", "workers": 1}}
    any_value = {"name": "q", "type": "any", "description": "It", "required": True}
    define(tools, "t", entry, parameters=[any_value])
    async with asyncio.timeout(BOUND), engine_of(tools) as engine:
        check(DIGITS, (await engine.execute("t", {"q": 10**4999})).error)
        assert (await engine.execute("t", {"q": "1" * 5000})).output == {"result": 5000}


# Executors of other packages.

PLUGIN = """
class Good:
    async def execute(self, tool, params, context):
        return "good"
class Broken(Good):
    def __init__(self):
        raise RuntimeError("no licence")
"""


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Two packages that offer executors, in a folder on Python's path."""
    site = tmp_path / "site"
    site.mkdir()
    (site / "plugin_of_cures.py").write_text(PLUGIN)
    for package in ("one", "two"):
        info = site / f"{package}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        points = "twice = plugin_of_cures:Good\n"
        points += "broken = plugin_of_cures:Broken\n" if package == "one" else ""
        (info / "entry_points.txt").write_text(f"[tool_engine.executors]\n{points}")
    os.utime(site, (0, 0))  # whatever changes it after this, however soon, is later
    monkeypatch.syspath_prepend(str(site))
    yield site
    sys.modules.pop("plugin_of_cures", None)


async def test_executor_that_two_packages_offer(tools: Path, packages: Path) -> None:
    """The one that is registered runs."""
    del packages
    define(tools, "t", {"type": "custom", "handler": "twice"})
    check(TWICE, await error_of(tools, "t"))
    async with asyncio.timeout(BOUND), engine_of(tools) as engine:
        engine.register_executor("twice", EchoExecutor())
        assert (await engine.execute("t")).is_success


@pytest.mark.parametrize("cure", ["repair", "uninstall"])
async def test_executor_that_cannot_be_loaded(tools: Path, packages: Path, cure: str) -> None:
    """Repaired it runs; uninstalled, another one of its name does."""
    define(tools, "t", {"type": "custom", "handler": "broken"})
    check(BROKEN, await error_of(tools, "t"))
    sys.modules.pop("plugin_of_cures", None)
    if cure == "repair":
        (packages / "plugin_of_cures.py").write_text(PLUGIN.replace("raise", "self.said ="))
    else:
        shutil.rmtree(packages / "one-1.0.dist-info")
        other = packages / "two-1.0.dist-info"
        points = "[tool_engine.executors]\nbroken = plugin_of_cures:Good\n"
        (other / "entry_points.txt").write_text(points)
    assert await error_of(tools, "t") == ""


# Secrets and templates.


def secret_file(path: Path, state: str) -> None:
    """Puts there what a call cannot use."""
    data = {"empty": b"", "binary": b"\0\xff", "large": b"x" * (MAX_SECRET_BYTES + 1)}
    if state == "folder":
        path.mkdir()
    elif state != "missing":
        path.write_bytes(data[state])


@pytest.mark.parametrize(
    ("state", "cure"),
    [
        ("missing", "create it, or let the engine's user read it"),
        ("empty", "write the secret into it"),
        ("binary", "write the secret into it as text"),
        ("large", "name the file of one secret"),
    ],
)
async def test_secret_file(tools: Path, state: str, cure: str) -> None:
    """A file that is made, filled or named as the message says is read."""
    path, other = tools.parent / "key", tools.parent / "key_of_one"
    secret_file(path, state)

    def write(file: Path) -> None:
        config = {"env": {"KEY": f"${{file:{file}}}"}}
        entry = {"type": "builtin", "handler": "run_command", "argv": ["true"], "config": config}
        define(tools, "t", entry)

    write(path)
    message = await error_of(tools, "t")
    check(SECRET, message)
    assert message.endswith(cure)
    named = other if state == "large" else path
    named.write_text("correct-horse-battery\n")
    write(named)
    assert await error_of(tools, "t") == ""


async def test_secret_variable(tools: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set before the engine starts it is read."""
    config = {"env": {"KEY": "${env:KEY_OF_CURES}"}}
    entry = {"type": "builtin", "handler": "run_command", "argv": ["true"], "config": config}
    define(tools, "t", entry)
    for value in (None, ""):
        if value is not None:
            monkeypatch.setenv("KEY_OF_CURES", value)
        check(VARIABLE, await error_of(tools, "t"))
    monkeypatch.setenv("KEY_OF_CURES", "correct-horse-battery")
    assert await error_of(tools, "t") == ""


@pytest.mark.parametrize(
    ("row", "broken", "healed"),
    [
        (KEY, {1: "a"}, {"1": "a"}),
        (TEXT, {"a": b"a"}, {"a": "a"}),
    ],
)
async def test_body_of_a_request(row: str, broken: Any, healed: Any) -> None:
    """With keys and values that are texts a tool that was made in code is taken."""

    def made(body: Any) -> Tool:
        request = {"method": "POST", "url": "https://example.com/", "json": body}
        entry = {"type": "http", "request": request}
        return Tool(
            id="t",
            version="1.0.0",
            category=ToolCategory.HTTP,
            tags=[],
            parameters=[],
            name="t",
            description="A.",
            implementation_config=entry,
        )

    async with ToolEngine() as engine:
        with pytest.raises(ToolEngineError) as raised:
            engine.register_tool(made(broken))
        check(row, raised.value)
        engine.register_tool(made(healed))


async def test_search_without_a_catalog(tools: Path) -> None:
    """Run by an engine it finds tools."""
    define(tools, "search_tools", {"type": "builtin"}, "query")
    async with asyncio.timeout(BOUND), engine_of(tools) as engine:
        tool = engine.index.get_or_raise("search_tools")
        with pytest.raises(ToolExecutionError) as raised:
            await ToolSearchExecutor().execute(tool, {"query": "x"}, ToolExecutionContext())
        check(SEARCH, raised.value)
        assert (await engine.execute("search_tools", {"query": "x"})).is_success
