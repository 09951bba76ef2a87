"""What the engine trusts is written by no tool, whichever it is and however it was registered.

A table: {tool that writes} x {trusted file} x {way of registering} x {spelling}. In each cell the
file must be as it was, and ordinary files next to it must still be written.

Looked at: everything of `tool_engine/executors` that opens a file for writing: `write_file` and
`edit_file` (`files/replacing.py`), `save_to` of HTTP tools (`http/download.py`), the folders under
`write` of `run_shell_command`. A SQL statement names its tables itself; a command is a program of
its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from importlib.machinery import all_suffixes
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.effort import IS_WHOLE, share_of
from tool_engine import (
    CallbackApprover,
    ToolConfigLoader,
    ToolEngine,
    ToolEngineConfig,
    ToolExecutionResult,
)
from tool_engine.executors.commands.sandbox_launcher import find_obstacle
from tool_engine.session.session import ToolSession

BOUND = 20.0
TEXT = '{"name": "evil", "description": "d", "entry": {"type": "builtin", "argv": ["id"]}}'
CODE = "def run():\n    return 1\n"

TRUSTED = {
    "a new definition": "tools/evil.yaml",
    "a new definition in a sub-folder": "tools/deep/evil.yaml",
    "a definition": "tools/known.yaml",
    "what a definition links to": "shared/linked.yaml",
    "what a definition will link to": "shared/later.yaml",
    "the lock file": "tools.lock",
    "the cache": "cache/new.tools",
    "code of a handler": "code/hands.py",
    "code of a handler in a package": "code/pack/inner.py",
    "what code of a handler links to": "shared/reached.py",
    "its package": "code/pack/__init__.py",
    "a module before the code": "code/hands/__init__.py",
    "a compiled module before the code": f"code/hands{all_suffixes()[-1]}",
    "its compiled form": "code/__pycache__/hands.cpython-311.pyc",
    "a module that is found earlier": "early/hands.py",
    "a package that is found earlier": "early/pack/__init__.py",
    "records": "data/calls.db",
    "a file beside the records": "data/calls.db-wal",
    "another one": "data/calls.db-journal",
    "a hook": ".git/hooks/pre-commit",
    "a hook by the short name": "GIT~1/hooks/pre-commit",
    "attributes of git": "deep/.gitattributes",
    "modules of git": ".gitmodules",
    "settings of git": ".gitconfig",
    "settings of a repository without .git": "bare/config",
    "a hook of it": "bare/hooks/pre-commit",
    "what makes a folder a repository": "half/HEAD",
    "a definition of another engine": "others/evil.yaml",
    "the lock file of another engine": "others.lock",
}
ORDINARY = (
    "note.txt",
    "tools.lock.txt",
    "toolset/evil.yaml",
    "shared/other.yaml",
    "code/hands_too.py",
    "code/hands.txt",
    "code/pack/other.py",
    "early/pack/data.txt",
    "data/notes.db",
    "data/calls.db.txt",
    ".gitignore",
    "half/config",
    "config",
    "HEAD",
    "git~/x",
)
OLD = "the old text"

TEXTS = {"type": "string", "required": True, "description": "x"}


class Project:
    """A project whose folder is the root of the tools that write, and holds all that is trusted."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for path in ("tools/deep", "shared", "cache", "code/pack", "early/pack", "data", "others"):
            (root / path).mkdir(parents=True)
        for path in ("deep", "code/__pycache__", ".git/hooks", "GIT~1/hooks", "toolset", "git~"):
            (root / path).mkdir(parents=True, exist_ok=True)
        for path in ("bare/objects", "bare/refs", "bare/hooks", "half/objects", "half/refs"):
            (root / path).mkdir(parents=True)
        (root / "bare/HEAD").write_text("ref: refs/heads/main")
        (root / "code/hands").mkdir()
        for path in ("tools/linked.yaml", "tools/deep/later.yaml"):
            name = Path(path).name
            (root / path).symlink_to(root / "shared" / name)
        handlers = {"hand": "hands:run", "inner": "pack.inner:run", "reached": "reached:run"}
        for name, handler in handlers.items():
            entry = {"type": "builtin", "handler": handler}
            self.define(name, {"name": name, "description": OLD, "entry": entry})
        for name in ("tools/known.yaml", "shared/linked.yaml"):
            text = {
                "name": Path(name).stem,
                "description": OLD,
                "entry": {"type": "custom", "handler": "echo"},
            }
            (root / name).write_bytes(msgspec.yaml.encode(text))
        for path in ("code/hands.py", "code/pack/__init__.py", "code/pack/inner.py"):
            (root / path).write_text(f"# {OLD}\n{CODE}")
        (root / "aside").symlink_to("tools")
        (root / "shared/reached.py").write_text(f"# {OLD}\n{CODE}")
        (root / "code/reached.py").symlink_to("../shared/reached.py")

    def define(self, name: str, definition: dict[str, Any]) -> None:
        (self.root / "tools/deep" / f"{name}.yaml").write_bytes(msgspec.yaml.encode(definition))

    def seen(self) -> dict[str, bytes]:
        """What is in each file, but those that the engine itself writes."""
        return {
            str(path.relative_to(self.root)): path.read_bytes()
            for path in self.root.rglob("*")
            if path.is_file() and path.parent.name not in ("cache", "data")
        }

    def spellings(self, path: str) -> Iterator[str]:
        """Other ways to write a path below the root."""
        yield path
        yield f"./{path.replace('/', '//')}"
        yield f"{self.root}/{path}"
        if path.startswith("tools/"):
            yield path.replace("tools/", "aside/", 1)
        if path in ("tools.lock", "data/calls.db"):
            yield path.replace("tools.lock", "Tools.LOCK").replace("calls.db", "CALLS.db")


def definition(tool: str, root: str, url: str) -> dict[str, Any]:
    """A tool that writes below `root`."""
    names = {"write": "write_file", "edit": "edit_file", "save": "save"}
    parameters = {"write": ("path", "content"), "edit": ("path", "old_text", "new_text")}
    entries: dict[str, dict[str, Any]] = {
        "write": {"type": "builtin", "handler": "write_file", "root": root},
        "edit": {"type": "builtin", "handler": "edit_file", "root": root},
        "save": {
            "type": "http",
            "request": {"url": url},
            "response": {"save_to": {"root": root, "path": "{path}", "create_only": False}},
            "allow": ["127.0.0.1:*"],
        },
    }
    return {
        "name": names[tool],
        "description": "d",
        "parameters": [{"name": name, **TEXTS} for name in parameters.get(tool, ("path",))],
        "entry": entries[tool],
    }


class Writer:
    """One tool that writes, registered in one way."""

    def __init__(self, tool: str, engine: ToolEngine, session: ToolSession | None) -> None:
        self.tool, self.engine, self.session = tool, engine, session
        self.name = {"write": "write_file", "edit": "edit_file"}.get(tool, "save")

    async def __call__(self, path: str, *, name: str | None = None) -> ToolExecutionResult:
        params = {"path": path}
        if self.tool == "write":
            params["content"] = TEXT
        if self.tool == "edit":
            params |= {"old_text": OLD, "new_text": "evil"}
        async with asyncio.timeout(BOUND):
            if self.session is not None:
                return await self.session.execute(name or self.name, params)
            return await self.engine.execute(name or self.name, params)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    made = Project(tmp_path / "project")
    for folder in ("code", "early"):
        monkeypatch.syspath_prepend(made.root / folder)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield_names = [
        name for name in sys.modules if name.split(".")[0] in ("hands", "pack", "reached")
    ]
    for name in yield_names:
        monkeypatch.delitem(sys.modules, name)
    return made


@pytest.fixture
async def url() -> AsyncIterator[str]:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(TEXT)}\r\nConnection: close\r\n\r\n"
        writer.write(f"{head}{TEXT}".encode())
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    yield f"http://127.0.0.1:{port}/x"
    server.close()
    await server.wait_closed()


@asynccontextmanager
async def engines(project: Project) -> AsyncIterator[ToolEngine]:
    """The engine of the project, and another one beside it in the same process."""
    root = project.root
    config = ToolEngineConfig(
        tools_directory=str(root / "tools"),
        recursive=True,
        auto_reload=False,
        cache_directory=str(root / "cache"),
        records=f"sqlite:///{root}/data/calls.db",
    )
    other = ToolEngineConfig(tools_directory=str(root / "others"), auto_reload=False)
    async with ToolEngine(config) as engine, ToolEngine(other):
        yield engine


async def writer_of(tool: str, way: str, project: Project, engine: ToolEngine, url: str) -> Writer:
    """The tool, registered in one of the ways there are."""
    session = None
    if way == "file":
        project.define("writer", definition(tool, "../..", url))
        await engine.reload()
        assert engine.get(
            "write_file" if tool == "write" else "save" if tool == "save" else "edit_file"
        )
    elif way == "code":
        engine.register_tool(definition(tool, str(project.root), url))
    elif way == "workflow":
        project.define("writer", definition(tool, "../..", url))
        named = definition(tool, "../..", url)
        params = {each["name"]: f"${{params.{each['name']}}}" for each in named["parameters"]}
        steps = [{"id": "one", "tool": named["name"], "params": params}]
        project.define(
            "flow", {**named, "name": "flow", "entry": {"type": "workflow", "steps": steps}}
        )
        await engine.reload()
    else:
        session = ToolSession(engine, "s", approver=CallbackApprover(lambda request: True))
        engine.register_tool(definition(tool, str(project.root), url))
    writer = Writer(tool, engine, session)
    if way == "workflow":
        writer.name = "flow"
    return writer


@pytest.mark.thinned(3)
@pytest.mark.parametrize("way", ["file", "code", "workflow", "session"])
@pytest.mark.parametrize("tool", ["write", "edit", "save"])
async def test_nothing_trusted_is_written(project: Project, url: str, tool: str, way: str) -> None:
    """No tool writes a file that the engine trusts; the files next to it are still written."""
    async with engines(project) as engine:
        assert [file for file, _ in engine.load_errors] == [
            str(project.root / "tools/deep/later.yaml")
        ]
        writer = await writer_of(tool, way, project, engine, url)
        before = project.seen()
        for what, path in TRUSTED.items():
            # One way to each tool is enough for how a path is read.
            spellings = project.spellings(path) if IS_WHOLE or way == "file" else [path]
            for spelling in spellings:
                result = await writer(spelling)
                assert not result.is_success, (what, spelling)
                assert tool == "edit" or "no tool may" in str(result.error), (what, result.error)
        assert project.seen() == before
        for path in ORDINARY:
            if tool == "edit":
                (project.root / path).write_text(OLD)
            result = await writer(path)
            assert result.is_success, (path, result.error)
            assert (project.root / path).read_text() == ("evil" if tool == "edit" else TEXT)


async def test_another_name_of_the_same_file(project: Project) -> None:
    """A hard link is no way in: what is written is a new file, and the trusted one stays."""
    link = project.root / "note.txt"
    os.link(project.root / "code/hands.py", link)
    async with engines(project) as engine:
        for tool in ("write", "edit"):
            engine.register_tool(definition(tool, str(project.root), ""))
            assert (await Writer(tool, engine, None)("note.txt")).is_success is (tool == "write")
    assert OLD in (project.root / "code/hands.py").read_text()


async def test_a_link_that_swings(project: Project) -> None:
    """A folder that becomes a link to trusted files in the middle of a call is no way in either."""
    root = project.root
    (root / "real").mkdir()
    ends = threading.Event()

    def swing() -> None:
        while not ends.is_set():
            for target in ("tools", "real", "code"):
                with contextlib.suppress(OSError):
                    (root / "next").symlink_to(target)
                    (root / "next").rename(root / "swing")

    swinging = threading.Thread(target=swing)
    async with engines(project) as engine:
        engine.register_tool(definition("write", str(root), ""))
        writer = Writer("write", engine, None)
        swinging.start()
        try:
            done = [
                await writer(f"swing/{name}") for name in ("evil.yaml", "hands.py") * share_of(60)
            ]
        finally:
            ends.set()
            await asyncio.to_thread(swinging.join, BOUND)
    assert any(result.is_success for result in done)
    assert not (root / "tools/evil.yaml").exists()
    assert not (root / "tools/hands.py").exists()
    assert OLD in (root / "code/hands.py").read_text()


async def test_reading_stays_allowed(project: Project) -> None:
    """What may not be written may be read."""
    async with engines(project) as engine:
        engine.register_tool(
            {
                "name": "read_file",
                "description": "d",
                "parameters": [{"name": "path", **TEXTS}],
                "entry": {"type": "builtin", "handler": "read_file", "root": str(project.root)},
            }
        )
        for path in ("tools/known.yaml", "aside/known.yaml", "code/hands.py", "shared/linked.yaml"):
            result = await engine.execute("read_file", {"path": path})
            assert OLD in result.output["content"]


async def test_a_reload_is_followed(project: Project) -> None:
    """What a reload brings is trusted from then on: links, and the code of new handlers."""
    async with engines(project) as engine:
        engine.register_tool(definition("write", str(project.root), ""))
        for path in ("shared/new.yaml", "code/fresh.py"):
            result = await engine.execute("write_file", {"path": path, "content": CODE})
            assert result.is_success
        (project.root / "tools/new.yaml").symlink_to("../shared/new.yaml")
        entry = {"type": "builtin", "handler": "fresh:run"}
        project.define("fresh", {"name": "fresh", "description": "d", "entry": entry})
        await engine.reload()
        for path in ("shared/new.yaml", "code/fresh.py"):
            result = await engine.execute("write_file", {"path": path, "content": TEXT})
            assert not result.is_success
            assert (project.root / path).read_text() == CODE


async def test_a_definition_that_the_program_reads(project: Project) -> None:
    """A program that reads a definition itself will read it again: a model may not write it."""
    (project.root / "extra").mkdir()
    kept = project.root / "extra/own.yaml"
    kept.write_text("name: own\ndescription: d\nentry: {type: builtin, handler: echo}\n")
    before = kept.read_text()
    async with engines(project) as engine:
        engine.register_tool(definition("write", str(project.root), ""))
        (own,) = await asyncio.to_thread(ToolConfigLoader().load_directory, kept.parent)
        engine.register_tool(own)
        params = {"path": "extra/own.yaml", "content": TEXT}
        assert not (await engine.execute("write_file", params)).is_success
        assert kept.read_text() == before
        params["path"] = "extra/other.yaml"
        assert (await engine.execute("write_file", params)).is_success


@pytest.mark.parametrize("directory", ["missing", "deep/er/missing"])
async def test_a_folder_that_is_not_there_yet(tmp_path: Path, directory: str) -> None:
    """A folder of definitions that is missing is not made by a model either."""
    (tmp_path / "work").mkdir()
    config = ToolEngineConfig(tools_directory=str(tmp_path / "work" / directory), auto_reload=False)
    async with ToolEngine(config) as engine:
        made = definition("write", str(tmp_path / "work"), "")
        made["parameters"].append({"name": "create_folders", "type": "boolean", "description": "d"})
        engine.register_tool(made)
        for path, is_fine in ((f"{directory}/evil.yaml", False), ("deep/er/note.txt", True)):
            params = {"path": path, "content": TEXT, "create_folders": True}
            result = await engine.execute("write_file", params)
            assert result.is_success is is_fine, (path, result.error)
        assert not (tmp_path / "work" / directory).exists()


async def test_a_quarantined_tool_is_not_approved_by_a_model(tmp_path: Path) -> None:
    """With `lock="enforce"`, no file that a model writes makes a tool run that nobody approved."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name, entry in (
        ("wipe", {"type": "builtin", "handler": "echo"}),
        ("write_file", definition("write", "..", "")["entry"]),
    ):
        made = {**definition("write", "..", ""), "name": name, "entry": entry}
        (tools / f"{name}.yaml").write_bytes(msgspec.yaml.encode(made))
    config = ToolEngineConfig(tools_directory=str(tools), auto_reload=False, lock="enforce")
    async with ToolEngine(config) as engine:
        await engine.lock_tools(["write_file"])
        before = (tmp_path / "tools.lock").read_bytes()
        params = {"path": "tools.lock", "content": TEXT}
        assert not (await engine.execute("write_file", params)).is_success
        await engine.reload()
        assert (tmp_path / "tools.lock").read_bytes() == before
        result = await engine.execute("wipe", params)
        assert result.error_type == "tool_quarantined"


@pytest.mark.skipif(bool(find_obstacle()), reason=find_obstacle() or "it can")
@pytest.mark.parametrize(
    ("write", "is_fine"),
    [
        (".", False),
        ("tools", False),
        ("tools/deep", False),
        ("shared", False),
        ("code", False),
        ("code/pack", False),
        ("early", False),
        ("data", False),
        ("cache", False),
        ("aside", False),
        ("toolset", True),
        ("deep", True),
    ],
)
async def test_scripts(project: Project, write: str, is_fine: bool) -> None:
    """A script does not run where it may write what the engine trusts."""
    async with engines(project) as engine:
        session = ToolSession(engine, "s", approver=CallbackApprover(lambda request: True))
        tool = {
            "name": "shell",
            "description": "d",
            "parameters": [{"name": "script", **TEXTS}],
            "entry": {
                "type": "builtin",
                "handler": "run_shell_command",
                "cwd": str(project.root),
                "config": {"write": [str(project.root / write)]},
            },
        }
        engine.register_tool(tool)
        before = project.seen()
        script = {"script": f"echo evil > {write}/evil.yaml"}
        async with asyncio.timeout(BOUND):
            result = await session.execute("shell", script)
        assert result.is_success is is_fine, result.error
        if not is_fine:
            assert "no tool may change" in str(result.error)
            assert project.seen() == before


@pytest.mark.skipif(bool(find_obstacle()), reason=find_obstacle() or "it can")
@pytest.mark.parametrize(
    "path", ["tools/known.yaml", "shared/linked.yaml", "tools.lock", "code/pack/inner.py"]
)
async def test_a_hard_link_for_scripts(project: Project, path: str) -> None:
    """A script does not run where what the engine trusts has another name; the cure helps."""
    async with engines(project) as engine:
        session = ToolSession(engine, "s", approver=CallbackApprover(lambda request: True))
        config = {"write": [str(project.root / "toolset")]}
        entry = {"type": "builtin", "handler": "run_shell_command", "cwd": str(project.root)}
        engine.register_tool(
            {
                "name": "shell",
                "description": "d",
                "parameters": [{"name": "script", **TEXTS}],
                "entry": {**entry, "config": config},
            }
        )
        own, link = project.root / path, project.root / "toolset/hard.txt"
        if not own.exists():
            own.write_text("{}")
        before = own.read_bytes()
        os.link(own, link)
        script = {"script": "echo evil >> toolset/hard.txt"}
        for is_fine in (False, True):
            async with asyncio.timeout(BOUND):
                result = await session.execute("shell", script)
            assert result.is_success is is_fine, result.error
            assert is_fine or "remove the link, or put a copy" in str(result.error)
            link.unlink()
            link.write_bytes(before)
        assert own.read_bytes() == before
