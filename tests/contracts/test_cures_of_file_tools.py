"""What an error of a file tool, a template or a page of a result says to do is done, and it goes.

`SENT` are mistakes in what a model sends. `MENDED` go when a file is mended, and the same call is
made again. `ENTRIES` are mistakes in the `root` of a definition, `BODIES` in what one sends. The
rest need somebody else who is at work at the same time. Rows as in `test_cures_of_errors`.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml

from tests.contracts.test_cures_of_errors import names_cure
from tool_engine import (
    ToolConfigLoader,
    ToolEngine,
    ToolEngineConfig,
    ToolEngineError,
    ToolExecutionContext,
)
from tool_engine.errors import ToolExecutionError
from tool_engine.executors.files import replacing
from tool_engine.executors.files.writing import FileWriteExecutor
from tool_engine.executors.result_reading import ResultReadExecutor

MOST = 30_000
"""Bytes that the tools here take."""
PARAMETERS = {
    "read_file": "path:string offset:integer",
    "write_file": "path:string content:string create_only:boolean expected_version:string",
    "edit_file": "path:string old_text:string new_text:string replace_all:boolean",
    "search_files": "pattern:string glob:string literal:boolean ignore_case:boolean",
}
"""What the definitions here declare, without the rules that would find a mistake before a tool."""
Params = dict[str, Any]
Mend = Callable[[Path], object]
FIRST = {"path": "a.txt"}
NEW = {"path": "new.txt", "content": "new\n"}
ONE = {"path": "a.txt", "old_text": "one", "new_text": "three"}
MANY = {"path": "many", "old_text": "x", "new_text": "y", "replace_all": True}
TWICE = {"path": "twice", "old_text": "x", "new_text": "y"}
LINES = (
    "editing.py: nothing was written: add lines around it until it is the only one, or set "
    "replace_all"
)
REGULAR = "file_errors.py: only regular files are read and written"
NO_GIT = "guard.py: no tool may change it: choose another name or folder"
LENGTH = "pattern.py: the most are …"
SIMPLER = "pattern.py: write it simpler, or search for a literal text"
OF_FILE = "root.py: give the path of a file"
SENT: list[tuple[str, str, Params, Params]] = [
    ("text_content.py: only text is read", "read_file", {"path": "zero"}, FIRST),
    ("editing.py: give a longer text", "edit_file", MANY, {**MANY, "old_text": "xx"}),
    ("editing.py: give the text that is to be replaced", "edit_file", {**ONE, "old_text": ""}, ONE),
    (LINES, "edit_file", TWICE, {**TWICE, "old_text": "a\nx", "new_text": "a\ny"}),
    (LINES, "edit_file", TWICE, {**TWICE, "replace_all": True}),
    ("editing.py: nothing would change", "edit_file", {**ONE, "new_text": "one"}, ONE),
    (REGULAR, "read_file", {"path": "pipe"}, FIRST),
    (REGULAR, "read_file", {"path": "near"}, {"path": "near/refs/a.txt"}),
    (REGULAR, "write_file", {**NEW, "path": "pipe"}, NEW),
    ("guard.py: choose another place", "write_anywhere",
     {**NEW, "path": "tools/new.txt"}, {**NEW, "path": "work/new.txt"}),
    ("guard.py: no tool may change it", "write_file", {**NEW, "path": ".gitattributes"}, NEW),
    (NO_GIT, "write_file", {**NEW, "path": "near/HEAD"}, {**NEW, "path": "near/TAIL"}),
    (NO_GIT, "write_file", {**NEW, "path": "near/HEAD"}, {**NEW, "path": "near/refs/HEAD"}),
    (LENGTH, "search_files", {"pattern": "a" * 501}, {"pattern": "a" * 500}),
    (LENGTH, "search_files", {"pattern": "." * 501, "literal": True, "ignore_case": True},
     {"pattern": "." * 500, "literal": True, "ignore_case": True}),
    (LENGTH, "search_files", {"pattern": "a", "glob": "." * 501},
     {"pattern": "a", "glob": "." * 500}),
    ("pattern.py: use one pair", "search_files",
     {"pattern": "a", "glob": "{a,{b,c}}"}, {"pattern": "a", "glob": "{a,b,c}"}),
    ("pattern.py: write both", "search_files",
     {"pattern": "a", "glob": "[ab"}, {"pattern": "a", "glob": "[ab]"}),
    (SIMPLER, "search_files", {"pattern": r"(a+)\1"}, {"pattern": "aa+"}),
    (SIMPLER, "search_files", {"pattern": r"(a+)\1"}, {"pattern": r"(a+)\1", "literal": True}),
    ("file_reading.py: -1 is the last line", "read_file",
     {**FIRST, "offset": 0}, {**FIRST, "offset": -1}),
    ("root.py: a name has … at most", "write_file",
     {**NEW, "path": "n" * 256}, {**NEW, "path": "n" * 255}),
    ("root.py: give a path relative to it", "read_file", {"path": "/a.txt"}, FIRST),
    ("root.py: give the path from the tool's folder on", "read_file",
     {"path": "near/../a.txt"}, FIRST),
    (OF_FILE, "read_file", {"path": "near/"}, {"path": "near/refs/a.txt"}),
    (OF_FILE, "read_file", {"path": "link"}, {"path": "link/a.txt"}),
    ("root.py: the most are … bytes", "read_file",
     {"path": "./" * 2046 + "a.txt"}, {"path": "./" * 2045 + "a.txt"}),
    ("root.py: write '/' between folders", "read_file",
     {"path": "near\\refs\\a.txt"}, {"path": "near/refs/a.txt"}),
    ("searching.py: give a text to look for", "search_files", {"pattern": ""}, {"pattern": "one"}),
    ("searching.py: search for one line", "search_files",
     {"pattern": r"one\ntwo"}, {"pattern": "one"}),
    ("writing.py: choose another name", "write_file",
     {**NEW, "path": "a.txt", "create_only": True}, {**NEW, "create_only": True}),
    ("writing.py: only text is written", "write_file", {**NEW, "content": "a\0b"}, NEW),
    ("writing.py: this tool writes files of at most … bytes", "write_file",
     {**NEW, "content": "a" * (MOST + 1)}, {**NEW, "content": "a" * MOST}),
]  # fmt: skip


def convert(name: str, encoding: str) -> Mend:
    """Converts a file to UTF-8, as its message asks."""

    def mend(work: Path) -> None:
        (work / name).write_text((work / name).read_text(encoding), "utf-8")

    return mend


def create(work: Path) -> None:
    """Creates the folder that a definition names."""
    (work.parent / "missing").mkdir()
    (work / "a.txt").rename(work.parent / "missing" / "a.txt")


CREATE = "root.py: create it, or correct entry.root: `tool-engine validate` names it"
MENDED: list[tuple[str, str, Params, Mend]] = [
    ("text_content.py: only UTF-8 is read, convert it first", "read_file",
     {"path": "utf16"}, convert("utf16", "utf-16")),
    ("text_content.py: only UTF-8 text is read", "read_file",
     {"path": "latin"}, convert("latin", "latin-1")),
    ("text_content.py: this tool takes files of at most … bytes", "read_file",
     {"path": "large"}, lambda work: os.truncate(work / "large", MOST)),
    ("replacing.py: it is left as it is", "write_file",
     {**NEW, "path": "fixed"}, lambda work: (work / "fixed").chmod(0o644)),
    (CREATE, "read_elsewhere", FIRST, create),
]  # fmt: skip
ENTRIES = [
    ("guard.py: correct entry.root in the definition", ".", "../work"),
    (CREATE, "../missing", "../work"),
]
READ_AGAIN = "editing.py: nothing was written: read the file again"
SET_VARIABLE = "executors/secrets.py: …: set it before the engine starts"
READ_LATER = "text_content.py: try again later"
WRITE_LATER = "replacing.py: nothing was written: try again later"
CHANGED = "replacing.py: nothing was written: read it again first"
STALE_VERSION = "writing.py: nothing was written: read it again first"
TOO_LATE = "replacing.py: … was not written"
OF_FILES = [
    *(row[0] for row in SENT),
    *(row[0] for row in MENDED),
    *(row[0] for row in ENTRIES),
    *(READ_AGAIN, READ_LATER, WRITE_LATER, CHANGED, STALE_VERSION, TOO_LATE),
]
"""Rows without the folder that their modules are in."""
SECRET = (
    "executors/templates.py: write ${env:NAME} for an environment variable, ${file:/path} for the "
    "text in a file, or {name} for a parameter"
)
BODIES = [
    *((SECRET, {"key": "${KEY}"}, {"key": key}) for key in ("${env:KEY}", "${file:/key}", "{q}")),
    ("executors/templates.py: write its absolute path, such as ${file:/run/secrets/key}",
     {"key": "${file:key}"}, {"key": "${file:/run/secrets/key}"}),
    ("executors/templates.py: only values are filled in", {"{q}": "a"}, {"a": "{q}"}),
]  # fmt: skip
NO_ENGINE = "executors/result_reading.py: run it by a ToolEngine"
NO_CALLER = (
    "executors/result_reading.py: pass a ToolExecutionContext with a caller_id or a "
    "conversation_id to each call"
)
SELECT = "output/select.py: correct the expression in its definition"
TRIED = {f"executors/files/{row}" for row in OF_FILES} | {row[0] for row in BODIES}
TRIED.add(SET_VARIABLE)
TRIED |= {NO_ENGINE, NO_CALLER, SELECT}


def definition(handler: str, *, name: str = "", root: str = "../work") -> dict[str, Any]:
    """The definition of a file tool that stays in `root`."""
    parameters = [
        {"name": each, "type": kind, "description": each, "required": each in ("path", "pattern")}
        for each, _, kind in (word.partition(":") for word in PARAMETERS[handler].split())
    ]
    entry = {"type": "builtin", "handler": handler, "root": root, "config": {"max_bytes": MOST}}
    head = {"name": name or handler, "description": "Works on files."}
    return {**head, "parameters": parameters, "entry": entry}


def opened(work: Path, handler: str = "read_file", root: str = "../work") -> ToolEngine:
    """An engine over the definitions beside `work`, one of which has this root."""
    folder = work.parent / "tools"
    (folder / f"{handler}.yaml").write_text(yaml.safe_dump(definition(handler, root=root)))
    engine = ToolEngine(ToolEngineConfig(tools_directory=str(folder), auto_reload=False))
    assert engine.load_errors == []
    return engine


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """The folder that the tools stay in; their definitions are in `tools` beside it."""
    made = tmp_path / "work"
    (made / "near" / "refs").mkdir(parents=True)
    (made / "near" / "objects").mkdir()
    (tmp_path / "tools").mkdir()
    files = {"a.txt": b"one\ntwo\n", "near/refs/a.txt": b"one\n", "twice": b"a\nx\nb\nx\n"}
    files |= {"many": b"x" * 10_001, "large": b"a" * (MOST + 1), "fixed": b"old\n"}
    files |= {"zero": b"a\0b", "utf16": "café".encode("utf-16"), "latin": "café".encode("latin-1")}
    for name, data in files.items():
        (made / name).write_bytes(data)
    (made / "fixed").chmod(0o444)
    (made / "link").symlink_to("near/..")
    os.mkfifo(made / "pipe")
    for each in (
        *map(definition, PARAMETERS),
        definition("write_file", name="write_anywhere", root=".."),
        definition("read_file", name="read_elsewhere", root="../missing"),
    ):
        (tmp_path / "tools" / f"{each['name']}.yaml").write_text(yaml.safe_dump(each), "utf-8")
    return made


@pytest_asyncio.fixture
async def engine(work: Path) -> AsyncIterator[ToolEngine]:
    """An engine with the file tools."""
    async with opened(work) as made:
        yield made


async def fails(engine: ToolEngine, row: str, tool: str, params: Params) -> None:
    """The call fails, and its message names the cure."""
    failed = await engine.execute(tool, params)
    assert names_cure(row, failed.error or ""), failed


async def works(engine: ToolEngine, tool: str, params: Params) -> Any:
    """The call works; what it returned."""
    result = await engine.execute(tool, params)
    assert result.is_success, result.error
    return result.output


@pytest.mark.parametrize(("row", "tool", "broken", "healed"), SENT)
async def test_sent(
    engine: ToolEngine, row: str, tool: str, broken: Params, healed: Params
) -> None:
    """A model that sends it as it was told is served."""
    await fails(engine, row, tool, broken)
    await works(engine, tool, healed)


@pytest.mark.parametrize(("row", "tool", "params", "mend"), MENDED)
async def test_mended(
    engine: ToolEngine, work: Path, row: str, tool: str, params: Params, mend: Mend
) -> None:
    """The same call works when the file is as the message wants it."""
    await fails(engine, row, tool, params)
    mend(work)
    await works(engine, tool, params)


@pytest.mark.parametrize(("row", "broken", "healed"), ENTRIES)
async def test_root_of_a_definition(work: Path, row: str, broken: str, healed: str) -> None:
    """The tool writes where its corrected definition says."""
    async with opened(work, "write_file", broken) as engine:
        await fails(engine, row, "write_file", NEW)
    async with opened(work, "write_file", healed) as engine:
        await works(engine, "write_file", NEW)
    assert (work / "new.txt").read_text() == NEW["content"]


async def test_root_from_the_environment(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that starts when the variable is set finds the folder."""
    monkeypatch.delenv("HERE_IT_IS", raising=False)
    async with opened(work, root="${env:HERE_IT_IS}") as engine:
        await fails(engine, SET_VARIABLE, "read_file", FIRST)
    monkeypatch.setenv("HERE_IT_IS", str(work))
    async with opened(work, root="${env:HERE_IT_IS}") as engine:
        await works(engine, "read_file", FIRST)


@pytest.mark.parametrize(("row", "broken", "healed"), BODIES)
def test_body_of_a_request(row: str, broken: Params, healed: Params) -> None:
    """A definition that writes its secrets and parameters as it was told is taken."""

    def register(body: Params) -> None:
        parameter = {"name": "q", "type": "string", "description": "x", "required": True}
        request = {"method": "POST", "url": "https://example.com/{q}", "json": body}
        entry = {"type": "http", "request": request}
        head = {"name": "t", "description": "A thing.", "parameters": [parameter]}
        ToolEngine().register_tool({**head, "entry": entry})

    with pytest.raises(ToolEngineError) as raised:
        register(broken)
    assert names_cure(row, str(raised.value)), raised.value
    register(healed)


async def test_file_that_is_another_one(engine: ToolEngine) -> None:
    """Who reads the file again edits what is there, and has the version that is there."""
    await fails(engine, READ_AGAIN, "edit_file", {**ONE, "old_text": "none"})
    params = {**FIRST, "content": "new\n", "expected_version": "0"}
    await fails(engine, STALE_VERSION, "write_file", params)
    found = await works(engine, "read_file", FIRST)
    await works(engine, "write_file", {**params, "expected_version": found["version"]})
    line = (await works(engine, "read_file", FIRST))["content"].splitlines()[0]
    await works(engine, "edit_file", {**ONE, "old_text": line})


async def test_file_that_is_written_all_the_time(
    engine: ToolEngine, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Later, when nobody writes to it any more, the file is read."""
    real = os.pread

    def reading_while_written(*args: int) -> bytes:
        data = real(*args)
        if not data:
            with (work / "a.txt").open("a") as more:
                more.write("more\n")
        return data

    with monkeypatch.context() as patched:
        patched.setattr(os, "pread", reading_while_written)
        await fails(engine, READ_LATER, "read_file", FIRST)
    assert (await works(engine, "read_file", FIRST))["content"].endswith("more\n")


async def test_folder_that_somebody_holds(
    engine: ToolEngine, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Later, when the folder is free, the file is written."""
    monkeypatch.setattr(replacing, "_PATIENCE", 0.0)
    holder = os.open(work, os.O_RDONLY)
    try:
        fcntl.flock(holder, fcntl.LOCK_EX)
        await fails(engine, WRITE_LATER, "write_file", NEW)
    finally:
        os.close(holder)
    await works(engine, "write_file", NEW)


async def test_change_at_the_last_moment(
    engine: ToolEngine, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What somebody else wrote meanwhile is read, and then replaced with its version."""
    real = replacing._write_file

    def write(*args: Any) -> None:
        real(*args)
        (work / "a.txt").write_text("somebody else's")

    params = {**FIRST, "content": "new\n"}
    with monkeypatch.context() as patched:
        patched.setattr(replacing, "_write_file", write)
        await fails(engine, CHANGED, "write_file", params)
    found = await works(engine, "read_file", FIRST)
    assert found["content"] == "somebody else's"
    await works(engine, "write_file", {**params, "expected_version": found["version"]})


def test_call_whose_time_is_over(work: Path) -> None:
    """It has written nothing, as it says; the same call in time writes."""
    tool = ToolConfigLoader().load_file(work.parent / "tools" / "write_file.yaml")
    with pytest.raises(ToolExecutionError) as raised:
        FileWriteExecutor().execute(tool, NEW, ToolExecutionContext(deadline=0.0))
    assert names_cure(TOO_LATE, str(raised.value)), raised.value
    assert not (work / "new.txt").exists()
    FileWriteExecutor().execute(tool, NEW, ToolExecutionContext())


async def test_result_that_is_read_on(engine: ToolEngine) -> None:
    """An engine that is told who calls reads the results of that caller."""

    async def answer() -> list[int]:
        return [42]

    call_id = {"name": "call_id", "type": "string", "required": True, "description": "Call"}
    entry = {"type": "builtin", "handler": "read_result"}
    head = {"name": "read_result", "description": "Reads on.", "parameters": [call_id]}
    reader = engine.register_tool({**head, "entry": entry})
    engine.register_tool({"name": "answer", "description": "Answers."}, answer)
    me = ToolExecutionContext.for_conversation("agent", "c1")
    with pytest.raises(ToolExecutionError) as raised:
        await ResultReadExecutor().execute(reader, {"call_id": "c"}, me)
    assert names_cure(NO_ENGINE, str(raised.value)), raised.value
    nobodys = await engine.execute("answer")
    await fails(engine, NO_CALLER, "read_result", {"call_id": nobodys.call_id})
    for caller in (ToolExecutionContext(caller_id="a"), ToolExecutionContext(conversation_id="c")):
        mine = await engine.execute("answer", {}, caller)
        page = await engine.execute("read_result", {"call_id": mine.call_id}, caller)
        assert page.is_success, page.error


async def test_select_that_does_not_fit(engine: ToolEngine) -> None:
    """The corrected expression picks from what the tool returns."""

    async def names() -> dict[str, Any]:
        return {"names": ["a", "b"]}

    for name, select in (("broken", "sum(names)"), ("healed", "length(names)")):
        head = {"name": name, "description": "Names.", "result": {"select": select}}
        engine.register_tool(head, names)
    await fails(engine, SELECT, "broken", {})
    await works(engine, "healed", {})
