"""Do the groups of an engine follow their files, as its tools do?"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tool_engine import (
    ConfigurationError,
    DefinitionError,
    EngineClosedError,
    ToolEngine,
    ToolEngineConfig,
    ToolEngineEvent,
    ToolEngineEventType,
)
from tool_engine.model.group import ToolGroup

TOOL = "name: echo\ndescription: d\n"
GROUP = "kind: group\nname: {name}\ntags: [{tag}]\n"


def write(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(text, encoding="utf-8")


def move(folder: Path, target: Path) -> None:
    folder.rename(target)


def engine_of(folder: Path, **keys: object) -> ToolEngine:
    settings = {"auto_reload": False, **keys}
    return ToolEngine(ToolEngineConfig(tools_directory=str(folder), **settings))  # type: ignore[arg-type]


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[ToolEngine]:
    write(tmp_path, "echo.yaml", TOOL)
    write(tmp_path, "web.yaml", GROUP.format(name="web", tag="a"))
    async with engine_of(tmp_path) as made:
        yield made


async def test_groups_follow_their_files(engine: ToolEngine, tmp_path: Path) -> None:
    """S10: a group comes, changes and goes; each counts as a generation, and only then."""
    held, first = engine.groups, engine.generation
    assert list(held) == ["web"]
    write(tmp_path, "files.yaml", GROUP.format(name="files", tag="a"))
    changes = await engine.reload()
    assert changes["groups_added"] == ["files"]
    assert (changes["added"], engine.generation) == ([], first + 1)
    write(tmp_path, "files.yaml", GROUP.format(name="files", tag="b"))
    assert (await engine.reload())["groups_modified"] == ["files"]
    assert engine.groups["files"].tags == ("b",)
    (tmp_path / "files.yaml").unlink()
    assert (await engine.reload())["groups_removed"] == ["files"]
    assert await engine.reload() == {"added": [], "modified": [], "removed": []}
    assert (engine.generation, list(engine.groups)) == (first + 3, ["web"])
    assert list(held) == ["web"]
    with pytest.raises(TypeError):
        held["x"] = held["web"]  # type: ignore[index]


async def test_a_file_that_breaks_keeps_its_last_good_group(
    engine: ToolEngine, tmp_path: Path
) -> None:
    """Promise 5: the last good one stays, and no other file is stopped."""
    before = engine.groups["web"]
    write(tmp_path, "web.yaml", "kind: group\nname: web\ntags: [a, 1]\n")
    write(tmp_path, "new.yaml", GROUP.format(name="new", tag="a"))
    assert (await engine.reload())["groups_added"] == ["new"]
    assert engine.groups["web"] is before
    ((file, message),) = engine.load_errors
    assert file.endswith("web.yaml")
    assert ":3:11: tags[1]: expected text" in message
    write(tmp_path, "web.yaml", GROUP.format(name="web", tag="z"))
    assert (await engine.reload())["groups_modified"] == ["web"]
    assert engine.load_errors == []


async def test_a_group_that_says_the_same_is_the_same(engine: ToolEngine, tmp_path: Path) -> None:
    """A comment changes nothing: no generation, no event about groups, the same value."""
    before, generation = engine.groups["web"], engine.generation
    write(tmp_path, "web.yaml", "# more words\n" + GROUP.format(name="web", tag="a"))
    assert await engine.reload() == {"added": [], "modified": [], "removed": []}
    assert (engine.groups["web"], engine.generation) == (before, generation)


async def test_tools_and_groups_are_swapped_at_once(engine: ToolEngine, tmp_path: Path) -> None:
    """S10: whoever holds a snapshot sees the tools and the groups of one moment."""
    seen: list[tuple[bool, bool]] = []
    done = threading.Event()

    def watch() -> None:
        while not done.is_set():
            index = engine.index
            seen.append(("two" in index, "two" in index.groups))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        text = f"name: two\ndescription: d\n---\n{GROUP.format(name='two', tag='a')}"
        for _ in range(5):
            write(tmp_path, "two.yaml", text)
            await engine.reload()
            (tmp_path / "two.yaml").unlink()
            await engine.reload()
    finally:
        done.set()
        watcher.join()
    assert set(seen) <= {(True, True), (False, False)}


async def test_the_event_names_the_groups(engine: ToolEngine, tmp_path: Path) -> None:
    """K46: reload_completed tells of groups only when any changed."""
    told: list[ToolEngineEvent] = []
    heard = asyncio.Event()

    def hear(event: ToolEngineEvent) -> None:
        if event.event_type is ToolEngineEventType.RELOAD_COMPLETED:
            told.append(event)
            heard.set()

    engine.subscribe(hear)
    await engine.reload()
    await asyncio.wait_for(heard.wait(), 10)
    assert set(told[0].data) == {"generation", "added", "modified", "removed"}
    heard.clear()
    write(tmp_path, "new.yaml", GROUP.format(name="new", tag="a"))
    await engine.reload()
    await asyncio.wait_for(heard.wait(), 10)
    assert told[1].data["groups_added"] == ["new"]
    assert told[1].data["groups_removed"] == []


async def test_the_watcher_sees_groups(tmp_path: Path) -> None:
    """K49: a group file that changes is live without anybody asking for it."""
    write(tmp_path, "web.yaml", GROUP.format(name="web", tag="a"))
    heard = asyncio.Event()

    def hear(event: ToolEngineEvent) -> None:
        if event.data.get("groups_modified") == ["web"]:
            heard.set()

    async with engine_of(tmp_path, auto_reload=True, reload_interval=0.05) as engine:
        engine.subscribe(hear)
        write(tmp_path, "web.yaml", GROUP.format(name="web", tag="b"))
        await asyncio.wait_for(heard.wait(), 10)
        assert engine.groups["web"].tags == ("b",)


async def test_registered_groups_stay(engine: ToolEngine, tmp_path: Path) -> None:
    """S33: a group of the program is there at once, survives reloads and rollbacks, and can go."""
    heard: list[ToolEngineEvent] = []
    engine.subscribe(heard.append, ["group_added", "group_removed"])
    generation = engine.generation
    made = engine.register_group({"name": "mine", "tools": ["echo"]})
    assert isinstance(made, ToolGroup)
    assert (engine.groups["mine"], engine.generation) == (made, generation + 1)
    write(tmp_path, "two.yaml", "name: two\ndescription: d\n")
    await engine.reload()
    await engine.rollback(generation)
    assert (engine.list_names(), list(engine.groups)) == (["echo"], ["mine", "web"])
    engine.register_tool({"name": "coded", "description": "d"})
    assert "mine" in engine.groups
    engine.unregister_tool("coded")
    engine.unregister_group("mine")
    await engine.reload()
    assert list(engine.groups) == ["web"]
    told = [(event.event_type.value, event.data) for event in heard]
    assert told == [("group_added", {"group": "mine"}), ("group_removed", {"group": "mine"})]


async def test_a_registered_value_has_no_file(engine: ToolEngine) -> None:
    """A group that came from somewhere else is the program's own from then on."""
    given = ToolGroup(name="own", tags=("a",), source="elsewhere.yaml")
    assert engine.register_group(given).source is None
    await engine.reload()
    assert "own" in engine.groups


async def test_names_are_not_taken_twice(engine: ToolEngine, tmp_path: Path) -> None:
    """U13: code meets a file's group, and a file meets that of the code: both are refused."""
    with pytest.raises(DefinitionError, match=r"already defined in .*web\.yaml; rename one"):
        engine.register_group({"name": "web", "tags": ["a"]})
    with pytest.raises(DefinitionError, match="expected a mapping, got the number 5"):
        engine.register_group(5)  # type: ignore[arg-type]
    engine.register_group({"name": "mine", "tags": ["a"]})
    with pytest.raises(DefinitionError, match="already defined in <code>"):
        engine.register_group(ToolGroup(name="mine"))
    write(tmp_path, "mine.yaml", GROUP.format(name="mine", tag="z"))
    await engine.reload()
    assert "also defined in <code>" in engine.load_errors[0][1]
    assert engine.groups["mine"].tags == ("a",)


async def test_what_cannot_be_taken_out(engine: ToolEngine) -> None:
    """The message names the nearest group, or the file to remove."""
    with pytest.raises(ConfigurationError, match="there is no group 'wbe'; did you mean 'web'"):
        engine.unregister_group("wbe")
    with pytest.raises(ConfigurationError, match=r"see engine\.groups"):
        engine.unregister_group("zzz")
    with pytest.raises(ConfigurationError, match="remove the file instead"):
        engine.unregister_group("web")
    await engine.close()
    with pytest.raises(EngineClosedError):
        engine.register_group({"name": "late", "tags": ["a"]})


async def test_a_rollback_leaves_groups_as_their_files_say(
    engine: ToolEngine, tmp_path: Path
) -> None:
    """A rollback is about what calls do: tools go back, groups stay, and history shows both."""
    number = engine.generation
    write(tmp_path, "echo.yaml", "name: echo\ndescription: other\n")
    write(tmp_path, "web.yaml", GROUP.format(name="web", tag="b"))
    await engine.reload()
    changes = await engine.rollback(number)
    assert changes == {"added": [], "modified": ["echo"], "removed": []}
    assert engine.get_or_raise("echo").description == "d"
    assert engine.groups["web"].tags == ("b",)
    assert [each.index.groups["web"].tags for each in engine.generations()[1:]] == [
        ("a",),
        ("b",),
        ("b",),
    ]


async def test_a_missing_folder_has_no_groups(engine: ToolEngine, tmp_path: Path) -> None:
    """U11: the folder is gone, and its groups are, too; they come back with it."""
    away = tmp_path.with_name("away")
    move(tmp_path, away)
    assert (await engine.reload())["groups_removed"] == ["web"]
    move(away, tmp_path)
    assert (await engine.reload())["groups_added"] == ["web"]


async def test_warnings(engine: ToolEngine, tmp_path: Path) -> None:
    """S10: a group may name a tool that comes later: it loads, and the name is told until then."""
    write(tmp_path, "web.yaml", "kind: group\nname: web\ntools: [echo, later]\n")
    await engine.reload()
    assert engine.load_errors == []
    (warning,) = engine.group_warnings()
    assert "tools[1]: there is no tool 'later'" in warning
    write(tmp_path, "later.yaml", "name: later\ndescription: d\n")
    await engine.reload()
    assert engine.group_warnings() == []


async def test_a_large_folder_with_a_group(tmp_path: Path) -> None:
    """The cache of definitions never hides a group: it is there at each start, and changes."""
    folder = tmp_path / "tools"
    folder.mkdir()
    for number in range(120):
        write(folder, f"t{number}.yaml", f"name: t{number}\ndescription: d\n")
    write(folder, "mixed.yaml", f"{TOOL}---\n{GROUP.format(name='web', tag='a')}")
    for tag in ("a", "a", "b"):
        write(folder, "mixed.yaml", f"{TOOL}---\n{GROUP.format(name='web', tag=tag)}")
        async with engine_of(folder, cache_directory=str(tmp_path / "cache")) as engine:
            assert (len(engine.index), engine.load_errors) == (121, [])
            assert engine.groups["web"].tags == (tag,)
