"""R9, promise 6: the code that runs is the code of the file that was looked at."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import os
import py_compile
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from tests.executors.python.test_in_engine import BOUND, define, engine_of
from tool_engine import ToolEngine
from tool_engine.catalog.approval.lock import ToolLock
from tool_engine.executors.python.importing import hash_of, import_source, running_hash

Write = Callable[[str], str]

GOOD, EVIL = "def run(text): return 'good'\n", "def run(text): return 'evil'\n"
APART = ", config: {isolation: process, memory: 512MiB, workers: 1}"


def compile_beside(file: Path, text: str, kind: str) -> None:
    """Leaves what `text` compiles to where Python looks for the compiled form of `file`."""
    source, stat = file.read_text(), file.stat()
    file.write_text(text)
    mode = py_compile.PycInvalidationMode[kind]
    compiled = py_compile.compile(str(file), invalidation_mode=mode, doraise=True)
    file.write_text(source)
    if kind == "TIMESTAMP":
        data = bytearray(Path(str(compiled)).read_bytes())
        data[8:16] = b"".join(
            (int(each) & 0xFFFFFFFF).to_bytes(4, "little") for each in (stat.st_mtime, len(source))
        )
        Path(str(compiled)).write_bytes(data)
        os.utime(file, (stat.st_mtime, stat.st_mtime))


@contextlib.asynccontextmanager
async def locked_engine_of(tools: Path) -> AsyncIterator[ToolEngine]:
    """An engine for which all tools of the folder were approved as they are."""
    async with asyncio.timeout(BOUND), engine_of(tools, lock="enforce") as engine:
        await engine.lock_tools(None)
        yield engine


async def said_by(engine: ToolEngine, name: str = "sample") -> object:
    result = await engine.execute(name, {"text": "a"})
    return result.output["result"] if result.is_success else result.error_type


@pytest.mark.parametrize("lock", ["enforce", "off"])
@pytest.mark.parametrize("kind", ["UNCHECKED_HASH", "TIMESTAMP"])
@pytest.mark.parametrize("config", ["", APART], ids=["here", "apart"])
async def test_no_compiled_file_runs(
    tmp_path: Path, write: Write, lock: str, kind: str, config: str
) -> None:
    """What is compiled beside a handler's module is not run in its place, whatever it says."""
    module, tools = write(GOOD), tmp_path / "tools"
    compile_beside(tmp_path / f"{module}.py", EVIL, kind)
    define(tools, "sample", f"{module}:run", config)
    async with asyncio.timeout(BOUND), engine_of(tools, lock=lock) as engine:
        await engine.lock_tools(None)
        assert await said_by(engine) == "good"


@pytest.mark.parametrize("config", ["", APART], ids=["here", "apart"])
async def test_no_compiled_file_of_its_package_runs(
    tmp_path: Path, write: Write, config: str
) -> None:
    """Under a lock neither that of a package on the way, nor of a module that it imports."""
    package, tools = tmp_path / write(""), tmp_path / "tools"
    (tmp_path / f"{package.name}.py").unlink()
    package.mkdir()
    (package / "__init__.py").write_text("words = ['good']\n")
    (package / "deep.py").write_text("word = 'good'\n")
    (package / "hands.py").write_text(
        "from . import words\nfrom .deep import word\ndef run(text): return [*words, word]\n"
    )
    compile_beside(package / "__init__.py", "words = ['evil']\n", "UNCHECKED_HASH")
    compile_beside(package / "deep.py", "word = 'evil'\n", "UNCHECKED_HASH")
    define(tools, "sample", f"{package.name}.hands:run", config)
    async with locked_engine_of(tools) as engine:
        assert await said_by(engine) == ["good", "good"]


@pytest.mark.parametrize("config", ["", APART], ids=["here", "apart"])
async def test_what_changed_since_the_look_is_not_run(
    tmp_path: Path, write: Write, config: str
) -> None:
    """A file that was edited after the look, and before its import, does not run."""
    module, tools = write(GOOD), tmp_path / "tools"
    define(tools, "sample", f"{module}:run", config)
    async with locked_engine_of(tools) as engine:
        (tmp_path / f"{module}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n{EVIL}")
        result = await engine.execute("sample", {"text": "a"})
        assert result.error_type == "execution_error"
        assert "is not the one that was approved" in str(result.error)
        assert not (tmp_path / "ran").exists()
        (tmp_path / f"{module}.py").write_text(GOOD)
        assert await said_by(engine) == "good"


async def test_an_extension_in_its_place_is_not_loaded(tmp_path: Path, write: Write) -> None:
    """What Python finds before the source, but is no source, is not run either."""
    module, tools = write(GOOD), tmp_path / "tools"
    define(tools, "sample", f"{module}:run")
    async with locked_engine_of(tools) as engine:
        (tmp_path / f"{module}.so").write_bytes(b"no library")
        importlib.invalidate_caches()
        result = await engine.execute("sample", {"text": "a"})
        assert "is not the one that was approved" in str(result.error)


async def test_what_another_engine_imported_is_not_run(tmp_path: Path, write: Write) -> None:
    """The same process may have imported other code, for an engine without a lock."""
    module, tools, others = write(EVIL), tmp_path / "tools", tmp_path / "others"
    define(tools, "sample", f"{module}:run")
    define(others, "sample", f"{module}:run")
    async with asyncio.timeout(BOUND), engine_of(others) as engine:
        assert await said_by(engine) == "evil"
    (tmp_path / f"{module}.py").write_text(GOOD)
    async with locked_engine_of(tools) as engine:
        assert await said_by(engine) == "tool_quarantined"
        assert "start the program anew" in engine.quarantined()[0].message
    del sys.modules[module]
    async with asyncio.timeout(BOUND), engine_of(tools, lock="enforce") as engine:
        assert await said_by(engine) == "good"


@pytest.mark.parametrize("config", ["", APART], ids=["here", "apart"])
async def test_a_new_approval_ends_the_code_of_before(
    tmp_path: Path, write: Write, config: str
) -> None:
    """Once other code is approved, what runs is that, or nothing."""
    module, tools = write(EVIL), tmp_path / "tools"
    define(tools, "sample", f"{module}:run", config)
    async with locked_engine_of(tools) as engine:
        assert await said_by(engine) == "evil"
        (tmp_path / f"{module}.py").write_text(GOOD)
        await engine.lock_tools(None)
        lock = await asyncio.to_thread(ToolLock.read, f"{tools}.lock")
        assert lock.tools["sample"].handler == hash_of(GOOD.encode())
        assert await said_by(engine) == ("good" if config else "tool_quarantined")


def test_running_hash(tmp_path: Path, write: Write) -> None:
    """It tells what was compiled, and nothing of what the engine did not import."""
    module = write(GOOD)
    assert running_hash(module) is None
    found = import_source(module)
    (tmp_path / f"{module}.py").write_text(EVIL)
    assert import_source(module) is found
    assert found.run("a") == "good"
    assert running_hash(module) == hash_of(GOOD.encode())
    assert running_hash("json") is None
    assert importlib.reload(found).run("a") == "evil"
    assert running_hash(module) == hash_of(EVIL.encode())
