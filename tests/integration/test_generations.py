"""Real files that change under an engine that is called all the while: generations and locks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tool_engine import (
    ConfigurationError,
    EngineClosedError,
    GenerationNotFoundError,
    LockFileError,
    ToolEngine,
    ToolEngineConfig,
    ToolEngineEvent,
    ToolNotFoundError,
    ToolQuarantinedError,
)

BOUND = 40.0

DEFINITION = """\
name: {name}
version: "{version}"
description: Says {word}
category: custom
effect: {effect}
parameters:
  - {{name: text, type: string, description: The text of {word}, default: {word}}}
entry: {{type: {type}, handler: {handler}}}
"""


def write(folder: Path, name: str = "one", **keys: Any) -> Path:
    values = {"version": "1.0.0", "word": "hi", "effect": "read", "type": "builtin",
              "handler": "echo", **keys}  # fmt: skip
    path = folder / f"{name}.yaml"
    # Renamed into place, as a deployment does it: no look sees half of it.
    draft = folder / f"{name}.draft"
    draft.write_text(DEFINITION.format(name=name, **values), encoding="utf-8")
    draft.replace(path)
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "tools"
    made.mkdir()
    return made


def lock_of(folder: Path) -> Path:
    return folder.with_name("tools.lock")


def siblings(folder: Path) -> list[Path]:
    return list(folder.parent.iterdir())


def break_lock(lock: Path) -> None:
    lock.write_text("broken", encoding="utf-8")


def remove(path: Path) -> None:
    path.unlink()


def configured(folder: Path, **keys: Any) -> ToolEngineConfig:
    return ToolEngineConfig(tools_directory=str(folder), auto_reload=False, **keys)


@pytest.fixture
async def engine(folder: Path) -> AsyncIterator[ToolEngine]:
    write(folder)
    async with asyncio.timeout(BOUND), ToolEngine(configured(folder)) as made:
        yield made


async def said(engine: ToolEngine, name: str = "one") -> Any:
    result = await engine.execute(name)
    return result.output.get("text") if result.is_success else result.error_type


class Heard:
    """The events about tools, as they came."""

    def __init__(self, engine: ToolEngine, *kinds: str) -> None:
        self.events: list[ToolEngineEvent] = []
        engine.subscribe(self.events.append, list(kinds) or None)

    def take(self) -> list[tuple[str, str | None]]:
        taken, self.events[:] = list(self.events), []
        return [(event.event_type.value, event.tool_name) for event in taken]


# Calls and reloads at once.


async def test_no_call_sees_half_of_a_reload(folder: Path) -> None:
    """10,000 calls during 100 reloads: each answers as one definition says, from first to last."""

    class Says:
        """Answers with all that the definition says of its version, before and after a wait."""

        async def execute(self, tool: Any, params: dict[str, Any], context: Any) -> Any:
            before = [tool.version, tool.description, tool.parameters[0].description]
            await asyncio.sleep(0.002)
            return {"text": params["text"], "said": before, "after": tool.version}

    reloads, calls, done = 100, 10_000, 0
    words = {f"{number}.0.0": f"w{number}" for number in range(reloads + 1)}
    write(folder, version="0.0.0", word="w0", type="custom", handler="says")
    config = configured(folder, max_records=1_000_000, watch_for_changes=True)
    async with asyncio.timeout(BOUND), ToolEngine(config) as engine:
        engine.register_executor("says", Says())
        generations: dict[str, set[int]] = {version: set() for version in words}

        async def call() -> None:
            nonlocal done
            while done < calls or engine.generation <= reloads:
                done += 1
                result = await engine.execute("one")
                output, version = result.output, result.metadata["tool_version"]
                word = words[version]
                assert output == {
                    "text": word,
                    "said": [version, f"Says {word}", f"The text of {word}"],
                    "after": version,
                }
                generations[version].add(result.metadata["generation"])

        async with asyncio.TaskGroup() as group, engine.events("tool_updated") as changes:
            callers = [group.create_task(call()) for _ in range(8)]
            for version, word in list(words.items())[1:]:
                write(folder, version=version, word=word, type="custom", handler="says")
                assert (await anext(changes)).data["new_version"] == version
        assert all(caller.done() for caller in callers)
        assert engine.generation == reloads + 1
        assert [*generations.values()] == [{number} for number in range(1, reloads + 2)]
        records = await engine.query_call_records(limit=done)
        seen = {(record.tool_version, record.definition_hash) for record in records}
        assert len(records) == done >= calls
        assert len(seen) == reloads + 1


# Generations.


async def test_generations_are_listed(folder: Path, engine: ToolEngine) -> None:
    """Each state of the folder is listed with its number, its time, its cause and its changes."""
    write(folder, version="2.0.0")
    write(folder, "two")
    await engine.reload()
    start, load, reload = engine.generations()
    assert [each.cause for each in (start, load, reload)] == ["start", "load", "reload"]
    assert [each.number for each in (start, load, reload)] == [0, 1, 2] == [0, 1, engine.generation]
    assert start.at <= load.at <= reload.at
    assert (load.added, load.modified, load.removed) == (["one"], [], [])
    assert (reload.added, reload.modified, reload.removed) == (["two"], ["one"], [])
    assert reload.index is engine.index
    assert load.index.get_or_raise("one").version == "1.0.0"


async def test_only_the_last_ones_are_kept(folder: Path) -> None:
    """`keep_generations` counts the present one; what is kept shares what did not change."""
    write(folder, "same")
    async with asyncio.timeout(BOUND), ToolEngine(configured(folder, keep_generations=2)) as engine:
        for number in range(5):
            write(folder, version=f"{number}.0.0", word=f"w{number}")
            await engine.reload()
        old, new = engine.generations()
        assert (old.number, new.number) == (5, 6)
        assert old.index.get("same") is new.index.get("same")
        with pytest.raises(GenerationNotFoundError, match="4 is no longer kept; kept are: 5, 6"):
            await engine.rollback(4)
        assert (await engine.rollback(5))["modified"] == ["one"]
        assert await said(engine) == "w3"


@pytest.mark.parametrize(
    ("number", "error", "why"),
    [
        (99, GenerationNotFoundError, "generation 99 never was; kept are: 0, 1"),
        (-1, GenerationNotFoundError, "never was"),
        (True, ConfigurationError, "whole number"),
        ("1", ConfigurationError, "whole number"),
        (1.0, ConfigurationError, "whole number"),
    ],
)
async def test_a_generation_that_is_not_there(
    engine: ToolEngine, number: Any, error: type[Exception], why: str
) -> None:
    """It is a typed error that names those that are kept, and nothing is published."""
    heard = Heard(engine)
    with pytest.raises(error, match=why):
        await engine.rollback(number)
    assert heard.take() == []


async def test_rollback(folder: Path, engine: ToolEngine) -> None:
    """What came goes, what went comes, what changed changes back; each is told as an event."""
    write(folder, "goes")
    await engine.reload()
    before = engine.generation
    write(folder, version="2.0.0", word="new")
    write(folder, "comes")
    (folder / "goes.yaml").unlink()
    await engine.reload()
    heard = Heard(engine)
    assert await engine.rollback(before) == {
        "added": ["goes"],
        "modified": ["one"],
        "removed": ["comes"],
    }
    updated, completed = heard.events[2], heard.events[-1]
    assert heard.take() == [
        ("reload_started", None),
        ("tool_added", "goes"),
        ("tool_updated", "one"),
        ("tool_removed", "comes"),
        ("reload_completed", None),
    ]
    assert (updated.data["old_version"], updated.data["new_version"]) == ("2.0.0", "1.0.0")
    assert updated.data["level"] == "breaking"
    assert completed.data["generation"] == engine.generation == before + 2
    assert await said(engine) == "hi"
    assert await said(engine, "goes") == "hi"
    assert await said(engine, "comes") == "tool_not_found"
    assert engine.generations()[-1].cause == "rollback"
    assert engine.get_statistics()["held"] == ["comes", "goes", "one"]


async def test_rollback_holds_until_the_file_changes(folder: Path) -> None:
    """An edit of another file does not undo it; the next edit of the same file does."""
    write(folder)
    config = ToolEngineConfig(str(folder), auto_reload=True, reload_interval=0.05)
    async with asyncio.timeout(BOUND), ToolEngine(config) as engine:
        stream = engine.events(["tool_updated", "tool_added"])
        write(folder, word="bad")
        await anext(stream)
        await engine.rollback(1)
        assert (await anext(stream)).tool_name == "one"
        write(folder, "other")
        assert (await anext(stream)).tool_name == "other"
        assert await said(engine) == "hi"
        assert engine.get_statistics()["held"] == ["one"]
        write(folder, word="good")
        assert (await anext(stream)).tool_name == "one"
        assert await said(engine) == "good"
        assert engine.get_statistics()["held"] == []


async def test_rollback_holds_until_reload_is_called(folder: Path, engine: ToolEngine) -> None:
    """Whoever asks for a reload asks for what the folder holds."""
    write(folder, word="bad")
    await engine.reload()
    await engine.rollback(1)
    assert (await engine.reload())["modified"] == ["one"]
    assert await said(engine) == "bad"


async def test_rollback_of_what_is_there(engine: ToolEngine) -> None:
    """To roll back to the present state changes nothing and makes no generation."""
    assert await engine.rollback(engine.generation) == {"added": [], "modified": [], "removed": []}
    assert [each.number for each in engine.generations()] == [0, 1]


async def test_rollback_and_forward_again(folder: Path, engine: ToolEngine) -> None:
    """A rollback is a generation like any other: it can be rolled back."""
    write(folder, word="new")
    await engine.reload()
    await engine.rollback(1)
    await engine.rollback(2)
    assert await said(engine) == "new"
    assert engine.get_statistics()["held"] == []


async def test_rollback_leaves_what_code_registered(folder: Path, engine: ToolEngine) -> None:
    """Tools from code and their handlers stay as they are, even on a name that a file once had."""
    made = {"name": "made", "description": "Made in code", "entry": {"type": "custom"}}
    first = engine.generation
    engine.register_tool(made, lambda: "code")
    (folder / "one.yaml").unlink()
    await engine.reload()
    engine.register_tool({**made, "name": "one"}, lambda: "code")
    registered = engine.generation
    assert (await engine.rollback(first))["added"] == []
    assert [await said(engine, name) for name in ("made", "one")] == [None, None]
    assert (await engine.execute("one")).output == {"result": "code"}
    engine.unregister_tool("made")
    await engine.rollback(registered)
    assert engine.list_names() == ["one"]


async def test_registrations_use_up_no_generation(engine: ToolEngine) -> None:
    """A hundred registrations count on, and the state of the folder before them is still there."""
    for number in range(100):
        made = {"name": f"made{number}", "description": "x", "entry": {"type": "custom"}}
        engine.register_tool(made, lambda: 1)
    assert engine.generation == 101
    assert [each.number for each in engine.generations()] == [0, 1]
    assert engine.generations()[-1].index is engine.index
    await engine.rollback(50)
    assert len(engine.list_names()) == 101


async def test_a_running_call_is_not_rolled_back(folder: Path, engine: ToolEngine) -> None:
    """A call ends on the definition that it began with, whatever is rolled back meanwhile."""
    running, go = asyncio.Event(), asyncio.Event()

    class Slow:
        async def execute(self, tool: Any, params: dict[str, Any], context: Any) -> Any:
            running.set()
            await go.wait()
            return {"text": params["text"], "version": tool.version}

    engine.register_executor("slow", Slow())
    write(folder, version="2.0.0", word="new", type="custom", handler="slow")
    await engine.reload()
    call = asyncio.create_task(engine.execute("one"))
    await running.wait()
    await engine.rollback(1)
    go.set()
    assert (await call).output == {"text": "new", "version": "2.0.0"}
    assert await said(engine) == "hi"


async def test_rollback_of_a_closed_engine(folder: Path) -> None:
    """Nothing is rolled back, locked or reloaded after the end."""
    write(folder)
    engine = ToolEngine(configured(folder))
    await engine.load()
    await engine.close()
    for work in (engine.rollback(1), engine.reload(), engine.lock_tools()):
        with pytest.raises(EngineClosedError):
            await work
    assert [path.name for path in siblings(folder)] == ["tools"]


# The reload policy.


async def test_a_breaking_edit_is_told(folder: Path, engine: ToolEngine) -> None:
    """`warn`: it is loaded, and the event, the log and the tool's findings say what broke."""
    heard = Heard(engine, "tool_updated")
    path = write(folder, effect="write")
    await engine.reload()
    (finding,) = engine.get_or_raise("one").findings
    assert finding.startswith(f"{path}: a breaking edit of 'one', which is still version '1.0.0'")
    assert finding.endswith("make it version 2.0.0")
    assert heard.events[0].data["level"] == "breaking"
    assert heard.events[0].data["changes"][0]["path"] == "effect"
    tool, generation = engine.get("one"), engine.generation
    await engine.reload()
    assert engine.get("one") is tool
    assert engine.generation == generation
    path.write_text("# a comment\n" + path.read_text(encoding="utf-8"), encoding="utf-8")
    await engine.reload()
    assert engine.get_or_raise("one").findings == [finding]
    write(folder, effect="write", word="other", version="2.0.0")
    await engine.reload()
    assert engine.get_or_raise("one").findings == []


async def test_a_breaking_edit_is_refused(folder: Path) -> None:
    """`strict`: the tool of before stays until the version says so, or the edit is taken back."""
    path = write(folder)
    config = configured(folder, reload_policy="strict")
    async with asyncio.timeout(BOUND), ToolEngine(config) as engine:
        heard = Heard(engine, "load_error", "tool_updated")
        write(folder, effect="write")
        for _ in range(2):
            assert (await engine.reload())["modified"] == []
            ((file, message),) = engine.load_errors
            assert file == str(path)
            assert "make it version 2.0.0; the tool of before stays" in message
            assert engine.get_or_raise("one").effect == "read"
        assert heard.take() == [("load_error", None)]
        write(folder, effect="write", version="2.0.0")
        assert (await engine.reload())["modified"] == ["one"]
        assert engine.load_errors == []
        write(folder, effect="write", version="2.1.0", word="new")
        await engine.reload()
        assert len(engine.load_errors) == 1
        write(folder, effect="write", version="2.0.0")
        await engine.reload()
        assert engine.load_errors == []
        assert await said(engine) == "hi"


async def test_strict_lets_other_edits_pass(folder: Path) -> None:
    """Only what breaks callers needs a major step; other files are loaded beside a refused one."""
    write(folder)
    write(folder, "two")
    config = configured(folder, reload_policy="strict")
    async with asyncio.timeout(BOUND), ToolEngine(config) as engine:
        write(folder, effect="write")
        path = write(folder, "two", version="1.0.1")
        path.write_text(path.read_text(encoding="utf-8").replace("Says hi", "Says it"))
        assert (await engine.reload())["modified"] == ["two"]
        assert engine.get_or_raise("two").description == "Says it"
        (folder / "one.yaml").unlink()
        assert (await engine.reload())["removed"] == ["one"]
        assert engine.load_errors == []


# The lock.


async def test_nothing_runs_without_a_lock_file(folder: Path) -> None:
    """A missing lock file opens nothing: all is quarantined, seen, told, and not callable."""
    write(folder)
    engine = ToolEngine(configured(folder, lock="enforce"))
    heard = Heard(engine)
    async with asyncio.timeout(BOUND), engine:
        assert heard.take() == [("tool_quarantined", "one"), ("load_error", None)]
        result = await engine.execute("one", {"text": "a secret"})
        assert (result.error_type, result.outcome.value) == ("tool_quarantined", "rejected")
        assert "there is no lock file" in str(result.error)
        assert engine.list_names() == []
        assert engine.tool_definitions("openai") == []
        (quarantined,) = engine.quarantined()
        assert (quarantined.name, quarantined.reason) == ("one", "no_lock")
        assert engine.get_statistics()["quarantined"] == ["one"]
        for ask in (engine.get_or_raise, lambda name: engine.tool_definitions("openai", [name])):
            with pytest.raises(ToolQuarantinedError, match="'one' is quarantined"):
                ask("one")
        with pytest.raises(ToolNotFoundError, match="there is no tool named 'zzz'"):
            engine.get_or_raise("zzz")
        # What its definition says is secret cannot be trusted, so nothing is kept.
        (record,) = await engine.query_call_records()
        assert (record.params, record.error_type) == ({}, "tool_quarantined")


async def test_approving_a_change(folder: Path) -> None:
    """A changed or new tool waits for its approval; a look after that finds it."""
    write(folder)
    lock = lock_of(folder)
    async with asyncio.timeout(BOUND), ToolEngine(configured(folder)) as engine:
        await engine.lock_tools()
    async with asyncio.timeout(BOUND), ToolEngine(configured(folder, lock="enforce")) as engine:
        assert await said(engine) == "hi"
        heard = Heard(engine)
        write(folder, word="bad", version="1.0.1")
        write(folder, "new")
        changes = await engine.reload()
        assert (changes["added"], changes["removed"]) == ([], ["one"])
        events = {event.event_type.value: event for event in heard.events}
        assert heard.take() == [
            ("reload_started", None),
            ("tool_removed", "one"),
            ("tool_quarantined", "new"),
            ("tool_quarantined", "one"),
            ("reload_completed", None),
        ]
        told = events["tool_quarantined"]
        assert told.data == {"reason": "changed", "version": "1.0.1", "approved_version": "1.0.0"}
        assert told.tool is engine.quarantined()[1].tool
        assert "tool-engine lock --approve one" in str(told.error)
        await engine.reload()
        assert heard.take() == [("reload_started", None), ("reload_completed", None)]
        assert [await said(engine, name) for name in ("one", "new")] == ["tool_quarantined"] * 2
        assert (await engine.lock_tools(["one"]))["added"] == ["one"]
        assert [await said(engine, name) for name in ("one", "new")] == ["bad", "tool_quarantined"]
        break_lock(lock)
        assert (await engine.reload())["removed"] == ["one"]
        assert [file for file, _ in engine.load_errors] == [str(lock)]
        with pytest.raises(LockFileError, match="is no lock file"):
            await engine.lock_tools(["one"])
        await engine.lock_tools()
        assert engine.list_names() == ["new", "one"]
        with pytest.raises(ToolNotFoundError, match="'zzz'"):
            await engine.lock_tools("zzz")


async def test_two_approvals_at_once(folder: Path) -> None:
    """Neither undoes the other, whichever writes the lock file first."""
    write(folder)
    write(folder, "two")
    async with asyncio.timeout(BOUND), ToolEngine(configured(folder, lock="enforce")) as engine:
        for _ in range(5):
            await asyncio.gather(engine.lock_tools(["one"]), engine.lock_tools(["two"]))
            assert engine.list_names() == ["one", "two"]
            await asyncio.to_thread((folder.parent / f"{folder.name}.lock").unlink)
            await engine.reload()
            assert engine.list_names() == []


async def test_a_lock_edit_is_seen_by_the_watcher(folder: Path) -> None:
    """With `auto_reload` an approval is in force soon after, and so is its withdrawal."""
    write(folder)
    config = ToolEngineConfig(str(folder), reload_interval=0.05, lock="enforce")
    async with asyncio.timeout(BOUND), ToolEngine(config) as engine:
        stream = engine.events(["tool_added", "tool_removed"])
        async with ToolEngine(configured(folder)) as other:
            await other.lock_tools()
        assert (await anext(stream)).event_type.value == "tool_added"
        remove(lock_of(folder))
        assert (await anext(stream)).event_type.value == "tool_removed"


async def test_code_needs_no_approval(folder: Path) -> None:
    """A tool that the program registers is the program's own; but no file may use its name."""
    write(folder)
    async with asyncio.timeout(BOUND), ToolEngine(configured(folder, lock="enforce")) as engine:
        engine.register_tool({"name": "made", "description": "x"}, lambda: 1)
        assert (await engine.execute("made")).is_success
        engine.register_tool({"name": "one", "description": "x"}, lambda: 1)
        assert (await engine.execute("one")).is_success
        assert engine.get_or_raise("one").source is None
        await engine.reload()
        assert engine.quarantined() == []


async def test_the_code_that_runs_a_tool_is_locked_too(folder: Path) -> None:
    """Other code under an approved name is quarantined until the program approves it."""

    class Good:
        async def execute(self, tool: Any, params: dict[str, Any], context: Any) -> Any:
            return {"text": "good"}

    class Bad:
        async def execute(self, tool: Any, params: dict[str, Any], context: Any) -> Any:
            return {"text": "bad"}

    write(folder, type="custom", handler="mine")
    config = configured(folder, lock="enforce")
    async with asyncio.timeout(BOUND), ToolEngine(config) as engine:
        engine.register_executor("mine", Good())
        await engine.lock_tools()
        assert await said(engine) == "good"
    async with asyncio.timeout(BOUND), ToolEngine(config) as engine:
        assert await said(engine) == "executor_not_found"
        engine.register_executor("mine", Good())
        assert await said(engine) == "tool_quarantined"
        await engine.reload()
        assert await said(engine) == "good"
    engine = ToolEngine(config)
    engine.register_executor("mine", Bad())
    async with asyncio.timeout(BOUND), engine:
        assert await said(engine) == "tool_quarantined"
        assert engine.quarantined()[0].reason == "handler_changed"
        await engine.lock_tools(["one"])
        assert await said(engine) == "bad"


async def test_a_plain_function_is_code_too(folder: Path) -> None:
    """The function is hashed, not what the engine wraps around it."""
    write(folder, type="custom", handler="mine")
    config = configured(folder, lock="enforce")

    def first() -> str:
        return "first"

    def second() -> str:
        return "second"

    made = {"name": "other", "description": "x", "entry": {"type": "custom", "handler": "mine"}}
    for handler, names in ((first, ["one", "other"]), (second, ["other"])):
        engine = ToolEngine(config)
        engine.register_tool(made, handler)
        async with asyncio.timeout(BOUND), engine:
            if handler is first:
                await engine.lock_tools()
            assert engine.list_names() == names


async def test_the_lock_outranks_rollback_and_policy(folder: Path) -> None:
    """A rollback brings back nothing that is not approved; what is approved needs no version."""
    write(folder)
    config = configured(folder, lock="enforce", reload_policy="strict")
    async with asyncio.timeout(BOUND), ToolEngine(config) as engine:
        await engine.lock_tools()
        before = engine.generation
        write(folder, effect="write")
        await engine.reload()
        await engine.lock_tools(["one"])
        assert engine.get_or_raise("one").effect == "write"
        await engine.rollback(before)
        assert await said(engine) == "tool_quarantined"
        # Approved is what is quarantined, which is the definition that was rolled back to.
        await engine.lock_tools(["one"])
        assert engine.get_or_raise("one").effect == "read"


async def test_another_lock_file(folder: Path, tmp_path: Path) -> None:
    """`lock_file` names it; a path object is fine."""
    write(folder)
    file: Any = tmp_path / "approved.toml"
    config = configured(folder, lock="enforce", lock_file=file)
    async with asyncio.timeout(BOUND), ToolEngine(config) as engine:
        await engine.lock_tools()
        assert await said(engine) == "hi"
    assert "one = {" in file.read_text(encoding="utf-8")
