"""Does a cached folder load as what its texts say, whatever became of the cache?"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tool_engine import ToolEngine, ToolEngineConfig
from tool_engine.catalog.definition.export import export_to_yaml
from tool_engine.catalog.folder import cache, cache_file
from tool_engine.catalog.folder import folder_reading as reload_module
from tool_engine.catalog.folder.cache import AUTO, CachedLoader, cache_path, default_directory
from tool_engine.catalog.folder.cache_file import read_cache
from tool_engine.catalog.folder.folder_reading import Catalog
from tool_engine.catalog.folder.merging import FolderOutcome
from tool_engine.catalog.kinds import Definition
from tool_engine.catalog.loader import ToolConfigLoader, load_checked
from tool_engine.errors import DefinitionProblem
from tool_engine.model.tool import Tool
from tool_engine.visible import escape_hidden

DEFINITION = """\
name: tool_{number}
version: "2.1.{number}"
description: Looks something up, number {number}
category: http
tags: [network, generated]
status: testing
timeout: 30
effect: read
retry: {{attempts: 2}}
rate: 5/min
concurrency: {{bucket: look_up, key: params.url, collision: reject, breaker: {{failures: 2}}}}
parameters:
  - {{name: url, type: string, required: true, default: x, description: The address}}
  - {{name: depth, type: number, default: 1.0, description: How deep, secret: true}}
entry: {{type: builtin, handler: look_up, config: {{count: 2, share: 2.0}}}}
output: {{type: object, properties: {{body: any}}}}
"""


RULES = b"r" * 32
MANY = cache.MIN_FILES
COUNT = 6
"""Definitions in a folder that is worth a cache here."""


def write(folder: Path, count: int = COUNT) -> list[Path]:
    folder.mkdir(exist_ok=True)
    files = [folder / f"tool_{number}.yaml" for number in range(count)]
    for number, file in enumerate(files):
        file.write_text(DEFINITION.format(number=number), encoding="utf-8")
    return files


@pytest.fixture(autouse=True)
def _few_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "MIN_FILES", COUNT)
    # Who edits the package while its tests run has other rules from then on.
    monkeypatch.setattr(cache_file, "rules_version", lambda: RULES)


class Loads:
    """Counts the texts that were read, as the loader and not the cache does it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sources: list[str] = []
        original = load_checked

        def counted(text: bytes, source: str, check: Any) -> list[Definition]:
            self.sources.append(source)
            return original(text, source, check)

        monkeypatch.setattr("tool_engine.catalog.folder.cache.load_checked", counted)

    def taken(self) -> int:
        count = len(self.sources)
        self.sources.clear()
        return count


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> Loads:
    return Loads(monkeypatch)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path / "tools")
    return tmp_path / "tools"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def look(folder: Path, directory: Path | str | None) -> FolderOutcome:
    """What an engine that starts now finds in the folder."""
    cached = None if directory is None else str(directory)
    return Catalog(folder, cache_directory=cached).look()


def tools_of(outcome: FolderOutcome) -> dict[str, Tool]:
    found = {tool.name: tool for file in outcome.files for tool in file.tools}
    return dict(sorted(found.items()))


def cached(text: str, source: str, directory: Path) -> Sequence[Definition]:
    """What a text defines, from the cache."""
    for _ in range(2):
        loader = CachedLoader(str(directory), "tools")
        with loader.session(["x"] * MANY):
            tools = loader.load_definitions(text.encode(), source)
    return tools


def test_second_start_reads_no_text(folder: Path, directory: Path, loads: Loads) -> None:
    """Issue 4, 5: the tools of a text that was read before come from the cache, equal in all."""
    plain = tools_of(look(folder, None))
    assert loads.taken() == COUNT
    first = look(folder, directory)
    assert loads.taken() == COUNT
    second = look(folder, directory)
    assert loads.taken() == 0
    assert tools_of(first) == tools_of(second) == plain
    assert repr(tools_of(second)) == repr(plain)


def test_only_what_changed_is_read(folder: Path, directory: Path, loads: Loads) -> None:
    """Another content is another text, whatever the file's stamp says; a comment is a content."""
    look(folder, directory)
    loads.taken()
    file = folder / "tool_4.yaml"
    before = file.stat()
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace("number 4", "number 8"), encoding="utf-8")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    found = tools_of(look(folder, directory))
    assert (loads.taken(), found["tool_4"].description) == (1, "Looks something up, number 8")
    look(folder, directory)
    assert loads.taken() == 0


def test_another_path_is_told(folder: Path, directory: Path, loads: Loads) -> None:
    """A text that moved is known, and its tool and warnings tell where it lies now."""
    look(folder, directory)
    loads.taken()
    moved = folder / "moved.yaml"
    (folder / "tool_3.yaml").rename(moved)
    tool = tools_of(look(folder, directory))["tool_3"]
    assert loads.taken() == 0
    assert tool == ToolConfigLoader().load_file(moved)
    assert tool.findings[0].startswith(f"{moved}:13:47: ")


def test_a_name_that_is_no_text(folder: Path, directory: Path, loads: Loads) -> None:
    """A warning about a file whose name is no UTF-8 comes back like any other."""
    odd = os.fsdecode(os.fsencode(folder) + b"/odd-\xff.yaml")
    Path(odd).write_text(DEFINITION.format(number=99), encoding="utf-8")
    for taken in (COUNT + 1, 0):
        found = tools_of(look(folder, directory))["tool_99"]
        assert (loads.taken(), found.source) == (taken, odd)
        assert found.findings[0].startswith(f"{escape_hidden(odd)}:13:47: ")


def test_errors_are_told_every_time(folder: Path, directory: Path, loads: Loads) -> None:
    """X6: what is wrong is read anew, and is as wrong as before."""
    (folder / "bad.yaml").write_text("name: bad\nversion: 1.10\n", encoding="utf-8")
    first = look(folder, directory).errors
    loads.taken()
    assert look(folder, directory).errors == first != []
    assert [Path(source).name for source in loads.sources] == ["bad.yaml"]


def test_several_tools_of_a_file(directory: Path) -> None:
    """A text of several tools is one entry with all of them."""
    text = f"{DEFINITION.format(number=1)}---\n{DEFINITION.format(number=2)}"
    assert cached(text, "a.yaml", directory) == ToolConfigLoader().load_tools(text, "a.yaml")


def test_only_the_first_look_is_cached(folder: Path, directory: Path, loads: Loads) -> None:
    """Later looks read a few texts: what they hold comes into the cache at the next start."""
    catalog = Catalog(folder, cache_directory=str(directory))
    catalog.look()
    file = next(iter(cache_files(directory)))
    written = file.stat().st_mtime_ns
    (folder / "new.yaml").write_text("name: new\ndescription: d\n", encoding="utf-8")
    assert "new" in tools_of(catalog.look())
    assert file.stat().st_mtime_ns == written


def cache_files(directory: Path) -> list[Path]:
    return sorted(directory.iterdir()) if directory.is_dir() else []


def test_small_folders_are_not_cached(tmp_path: Path, directory: Path) -> None:
    """A folder that is read in no time leaves nothing behind."""
    write(tmp_path / "tools", COUNT - 1)
    look(tmp_path / "tools", directory)
    assert cache_files(directory) == []


def test_what_is_gone_goes(folder: Path, directory: Path, loads: Loads) -> None:
    """The cache does not grow with time: it holds what the folder held at the last start."""
    look(folder, directory)
    size = cache_files(directory)[0].stat().st_size
    for number in range(COUNT):
        text = DEFINITION.format(number=number).replace("Looks", "Finds")
        (folder / f"tool_{number}.yaml").write_text(text, encoding="utf-8")
    loads.taken()
    look(folder, directory)
    assert (loads.taken(), cache_files(directory)[0].stat().st_size) == (COUNT, size)


def test_folders_have_files_of_their_own(folder: Path, directory: Path, loads: Loads) -> None:
    """Two folders, and one with and without its sub-folders, never push each other out."""
    other = folder.parent / "others"
    write(other)
    for path in (folder, other):
        look(path, directory)
        Catalog(path, recursive=True, cache_directory=str(directory)).look()
    loads.taken()
    look(folder, directory)
    assert (loads.taken(), len(cache_files(directory))) == (0, 4)


class Judge:
    """Finds something wrong with the tools of some names, and counts how often it is asked."""

    def __init__(self, *wrong: str) -> None:
        self.wrong = wrong
        self.asked = 0

    def check(self, tool: Tool) -> list[DefinitionProblem]:
        self.asked += 1
        wrong = tool.name in self.wrong
        return [DefinitionProblem("is wrong", str(tool.source))] if wrong else []

    def key(self) -> str:
        return ",".join(self.wrong)


def test_what_was_checked_is_not_checked_again(folder: Path, directory: Path) -> None:
    """Who checks by a key is asked once about each right text, and again about each wrong one."""
    judge = Judge("tool_2")
    for asked in (COUNT, 1):
        catalog = Catalog(
            folder, check=judge.check, check_key=judge.key, cache_directory=str(directory)
        )
        (error,) = catalog.look().errors
        assert error == (str(folder / "tool_2.yaml"), f"{folder / 'tool_2.yaml'}:1:1: is wrong")
        assert judge.asked == asked
        judge.asked = 0


def test_another_key_checks_again(folder: Path, directory: Path) -> None:
    """Nobody's verdict is taken for another's, and both are kept."""
    for wrong, asked in (([], COUNT), (["tool_2"], COUNT), ([], 0), (["tool_2"], 1)):
        judge = Judge(*wrong)
        catalog = Catalog(
            folder, check=judge.check, check_key=judge.key, cache_directory=str(directory)
        )
        assert [Path(file).stem for file, _ in catalog.look().errors] == wrong
        assert judge.asked == asked


def test_without_a_key_all_are_checked(folder: Path, directory: Path) -> None:
    """Who may answer otherwise each time is asked each time."""
    for wrong in ([], ["tool_2"], []):
        judge = Judge(*wrong)
        catalog = Catalog(folder, check=judge.check, cache_directory=str(directory))
        assert [Path(file).stem for file, _ in catalog.look().errors] == wrong
        # A text with a mistake is read again, for all that is wrong with it.
        assert judge.asked == COUNT + len(wrong)


def test_what_is_not_settled_is_checked_each_time(folder: Path, directory: Path) -> None:
    """R9: a tool that runs somebody's code is asked about at each start, the others are not."""
    for wrong, asked in (([], COUNT), (["tool_2"], 2), ([], 1)):
        judge = Judge(*wrong)
        catalog = Catalog(
            folder,
            check=judge.check,
            check_key=lambda: "",
            is_settled=lambda tool: tool.name != "tool_2",
            cache_directory=str(directory),
        )
        assert [Path(file).stem for file, _ in catalog.look().errors] == wrong
        assert judge.asked == asked


@pytest.mark.parametrize("way", ["replaced", "rewritten", "removed"])
def test_changed_while_it_is_read(
    folder: Path, directory: Path, loads: Loads, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """U12: a file that has long been there and changes while the first look reads it ends as what
    it holds in the end, and so does the cache."""
    file, other = folder / "tool_2.yaml", folder / "other.tmp"
    before = file.read_bytes()
    text = before.decode().replace("Looks", "Finds")
    done: list[bytes] = []
    read = os.read

    def read_and_change(descriptor: int, length: int) -> bytes:
        data = read(descriptor, length)
        if data == before and not done:
            done.append(data)
            other.write_text(text, encoding="utf-8")
            if way == "replaced":
                other.replace(file)
            elif way == "rewritten":
                file.write_text(text, encoding="utf-8")
            else:
                file.unlink()
        return data

    monkeypatch.setattr(os, "read", read_and_change)
    # Nothing but its clock makes a file old.
    monkeypatch.setattr(reload_module, "PATIENCE", -1.0)
    for _ in range(2):
        found = tools_of(look(folder, directory)).get("tool_2")
        described = None if found is None else found.description
        assert described == (None if way == "removed" else "Finds something up, number 2")
    assert done == [before]


# What may become of a cache.


def test_any_damage_is_noticed(folder: Path, directory: Path, loads: Loads) -> None:
    """Issue 4, 5: whatever happens to the bytes, the tools are those of the texts, and the cache
    is whole again at the next start."""
    plain = tools_of(look(folder, directory))
    file = cache_files(directory)[0]
    sound, entries = file.read_bytes(), read_cache(file)
    assert len(entries) == COUNT
    chance = random.Random(7)  # noqa: S311 - for a test
    damaged = [b"", b"\0" * len(sound), sound[::-1], sound + b"x", sound[1:], b"[]"]
    damaged += [sound[: chance.randrange(len(sound))] for _ in range(10)]
    for _ in range(30):
        at, bit = chance.randrange(len(sound)), 1 << chance.randrange(8)
        damaged.append(sound[:at] + bytes([sound[at] ^ bit]) + sound[at + 1 :])
    loads.taken()
    for data in damaged:
        file.write_bytes(data)
        assert tools_of(look(folder, directory)) == plain
        assert loads.taken() == COUNT
        assert read_cache(file) == entries


def test_swapped_files(folder: Path, directory: Path, loads: Loads) -> None:
    """A cache in another's place says nothing wrong: entries are found by what they came of."""
    other = folder.parent / "others"
    for number, file in enumerate(write(other)):
        file.write_text(DEFINITION.format(number=1000 + number), encoding="utf-8")
    plain = tools_of(look(folder, directory))
    look(other, directory)
    first, second = (file.read_bytes() for file in cache_files(directory))
    for file, data in zip(cache_files(directory), (second, first), strict=True):
        file.write_bytes(data)
    assert tools_of(look(folder, directory)) == plain


def test_entries_that_are_none(
    folder: Path, directory: Path, loads: Loads, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An entry that does not decode is read anew and replaced, though its file is sound."""
    with monkeypatch.context() as patched:
        patched.setattr(cache, "entry_of", lambda tools, source: b"\xc1")
        plain = tools_of(look(folder, directory))
    loads.taken()
    assert tools_of(look(folder, directory)) == plain
    assert loads.taken() == COUNT
    look(folder, directory)
    assert loads.taken() == 0


def test_deleted_while_in_use(folder: Path, directory: Path) -> None:
    """Issue 4, 5: a cache may be deleted at any time, by anybody."""
    plain = tools_of(look(folder, directory))
    loader = CachedLoader(str(directory), str(folder))
    with loader.session(["x"] * COUNT):
        for file in cache_files(directory):
            file.unlink()
        directory.rmdir()
        texts = [(file.read_bytes(), str(file)) for file in sorted(folder.iterdir())]
        for data, source in texts[:10]:
            (tool,) = loader.load_definitions(data, source)
            assert tool == plain[tool.name]
        loader.load_definitions(b"name: new\ndescription: d\n", "new.yaml")
    assert len(cache_files(directory)) == 1


@pytest.mark.parametrize("hindrance", ["a file", "read-only", "a folder"])
def test_where_nothing_can_be_written(folder: Path, directory: Path, hindrance: str) -> None:
    """Issue 4, 5: without a cache everything works, only slower, and nothing is left behind."""
    if hindrance == "a file":
        directory.write_bytes(b"")
    elif hindrance == "a folder":
        path = cache_path(str(directory), str(folder), recursive=False)
        assert path is not None
        path.mkdir(parents=True)
    else:
        directory = Path("/proc")  # where not even root may make a file
    for _ in range(2):
        assert len(tools_of(look(folder, directory))) == COUNT
    if hindrance == "a folder":
        assert [file.suffix for file in cache_files(directory)] == [".tools"]


START = """
import sys
from tool_engine.catalog.folder import cache_file
from tool_engine.catalog.folder.folder_reading import Catalog
cache_file.rules_version = lambda: b"r" * 32
files = Catalog(sys.argv[1], cache_directory=sys.argv[2]).look().files
print(sum(len(file.tools) for file in files))
"""


def test_processes_share_it(folder: Path, directory: Path, loads: Loads) -> None:
    """Issue 4, 5: processes that start at once all find the tools, and leave one sound cache."""
    count = len(write(folder, MANY))
    command = [sys.executable, "-c", START, str(folder), str(directory)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(2)]
    for process in running:
        printed, _ = process.communicate(timeout=60)
        assert (process.returncode, printed.split()) == (0, [str(count).encode()])
    assert [file.suffix for file in cache_files(directory)] == [".tools"]
    look(folder, directory)
    assert loads.taken() == 0


def test_nothing_in_it_is_run(folder: Path, directory: Path) -> None:
    """Issue 4, 5: a cache is data. Nothing that reads it can make code of it."""
    look(folder, directory)
    package = Path(cache.__file__).parent
    for name in ("cache.py", "cache_file.py"):
        text = (package / name).read_text(encoding="utf-8")
        assert not [word for word in ("pickle", "marshal", "eval", "exec(") if word in text]


# Where it is.


@pytest.mark.parametrize(
    ("platform", "environment", "expected"),
    [
        ("linux", {"XDG_CACHE_HOME": "/x", "HOME": "/home/me"}, "/x/tool-engine"),
        ("linux", {"XDG_CACHE_HOME": "x", "HOME": "/home/me"}, "/home/me/.cache/tool-engine"),
        ("linux", {"HOME": "/home/me"}, "/home/me/.cache/tool-engine"),
        ("darwin", {"HOME": "/home/me"}, "/home/me/Library/Caches/tool-engine"),
        ("win32", {"LOCALAPPDATA": "/local", "HOME": "/home/me"}, "/local/tool-engine"),
    ],
)
def test_the_users_cache_directory(
    monkeypatch: pytest.MonkeyPatch, platform: str, environment: dict[str, str], expected: str
) -> None:
    """By default the cache is where the user's caches are by custom."""
    for name in ("XDG_CACHE_HOME", "HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "platform", platform)
    assert default_directory() == Path(expected)
    assert cache_path(AUTO, "tools", recursive=False).parent == Path(expected)  # type: ignore[union-attr]


def test_no_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user without a home, as in some containers, has no cache."""

    def fail() -> Path:
        raise RuntimeError("no home")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", fail)
    assert default_directory() is None
    assert cache_path(AUTO, "tools", recursive=False) is None


def test_no_directory() -> None:
    """None keeps nothing."""
    assert cache_path(None, "tools", recursive=False) is None


async def test_an_engine_uses_it(folder: Path, directory: Path, loads: Loads) -> None:
    """`cache_directory` says where an engine's cache is; None means that it has none."""
    for place, read in ((str(directory), COUNT), (str(directory), 0), (None, COUNT)):
        config = ToolEngineConfig(
            tools_directory=str(folder), auto_reload=False, cache_directory=place
        )
        async with ToolEngine(config) as engine:
            assert len(engine.list_names()) == COUNT
        assert loads.taken() == read


TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
DEFINITIONS = st.fixed_dictionaries(
    {"name": st.just("t"), "description": st.just("d")},
    optional={
        "version": st.sampled_from(["1.0.0", "1.10", "2"]),
        "category": st.sampled_from(["http", "ai"]),
        "tags": st.lists(st.sampled_from(["a", "no", "é", "1.0"]), unique=True),
        "author": st.sampled_from(["A", "no", "☃"]),
        "status": st.sampled_from(["draft", "published"]),
        "timeout": st.sampled_from([1, 1.0, 2.5]),
        "effect": st.sampled_from(["read", "write"]),
        "idempotent": st.booleans(),
        "concurrency": st.sampled_from([{"priority": 1}, {"collision": "reject", "weight": 2.0}]),
        "rate": st.sampled_from(["5/s", "1/90min"]),
        "entry": st.fixed_dictionaries(
            {"type": st.just("custom"), "config": st.dictionaries(TEXTS, VALUES, max_size=3)}
        ),
        "parameters": st.just([{"name": "p", "type": "number", "description": "d"}])
        | st.sampled_from([1, 1.0, -0.0, 1e300]).map(
            lambda default: [
                {
                    "name": "p",
                    "type": "number",
                    "description": "d",
                    "required": True,
                    "default": default,
                }
            ]
        ),
        "output": st.just({"type": "object", "properties": {"a": "integer"}}),
    },
)


@given(DEFINITIONS)
def test_any_tool_comes_back(definition: dict[str, Any]) -> None:
    """Issue 4, 5: a tool from the cache is the one from the text, to the type of each number."""
    text = export_to_yaml(ToolConfigLoader().from_mapping(definition))
    with tempfile.TemporaryDirectory() as directory:
        found = cached(text, "tools/t.yaml", Path(directory))
    assert found == ToolConfigLoader().load_tools(text, "tools/t.yaml")
    assert repr(found) == repr(ToolConfigLoader().load_tools(text, "tools/t.yaml"))
