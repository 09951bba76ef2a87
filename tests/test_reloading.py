"""Real files that come, change, break and go while the engine runs."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from tool_engine import (
    BreakerPolicy,
    ConcurrencyConfig,
    EngineClosedError,
    ToolConfigLoader,
    ToolEngine,
    ToolEngineConfig,
    ToolEngineEvent,
    ToolRate,
)
from tool_engine.catalog.folder.bucket_names import limit_warnings
from tool_engine.catalog.index import ToolIndex

BOUND = 20.0

DEFINITION = """
name: {name}
version: "{version}"
description: {description}
category: custom
parameters:
  - name: message
    type: string
    default: {default}
    description: The text
entry:
  type: builtin
  handler: {handler}
"""


def write(folder: Path, name: str, file: str | None = None, **keys: str) -> Path:
    values = {
        "name": name,
        "version": "1.0.0",
        "description": "Says it again",
        "default": "hi",
        "handler": "echo",
        **keys,
    }
    path = folder / (file or f"{name}.yaml")
    path.write_text(DEFINITION.format(**values), encoding="utf-8")
    return path


class Heard:
    """The kinds of the events about tools, and those of a kind."""

    def __init__(self, engine: ToolEngine) -> None:
        self.events: list[ToolEngineEvent] = []
        engine.subscribe(self.events.append)

    def take(self) -> list[tuple[str, str | None]]:
        taken, self.events[:] = list(self.events), []
        return [(event.event_type.value, event.tool_name) for event in taken]


@pytest.fixture
def config(tmp_path: Path) -> ToolEngineConfig:
    return ToolEngineConfig(tools_directory=str(tmp_path), auto_reload=False)


@pytest.fixture
async def engine(config: ToolEngineConfig) -> AsyncIterator[ToolEngine]:
    async with ToolEngine(config) as made:
        yield made


async def test_load_tells_of_every_tool(tmp_path: Path, config: ToolEngineConfig) -> None:
    """K46: loading publishes TOOL_LOADED for each tool and LOAD_ERROR for each bad file."""
    write(tmp_path, "one")
    bad = tmp_path / "two.yaml"
    bad.write_text("name: two\n")
    engine = ToolEngine(config)
    heard = Heard(engine)
    await engine.load()
    assert heard.take() == [("tool_loaded", "one"), ("load_error", None)]
    ((file, message),) = engine.load_errors
    assert file == str(bad)
    assert message.startswith(f"{bad}:1:1: ")
    await engine.close()


async def test_added_modified_removed(tmp_path: Path, engine: ToolEngine) -> None:
    """K46, K49, U11: `reload` returns and publishes what was added, modified and removed."""
    write(tmp_path, "stays")
    write(tmp_path, "changes")
    goes = write(tmp_path, "goes")
    await engine.reload()
    heard = Heard(engine)
    write(tmp_path, "comes")
    write(tmp_path, "changes", version="2.0.0")
    goes.unlink()
    generation = engine.generation
    assert await engine.reload() == {
        "added": ["comes"],
        "modified": ["changes"],
        "removed": ["goes"],
    }
    assert engine.generation == generation + 1
    events = {event.event_type.value: event for event in heard.events}
    assert heard.take() == [
        ("reload_started", None),
        ("tool_added", "comes"),
        ("tool_updated", "changes"),
        ("tool_removed", "goes"),
        ("reload_completed", None),
    ]
    assert events["reload_completed"].data == {
        "added": ["comes"],
        "modified": ["changes"],
        "removed": ["goes"],
        "generation": generation + 1,
    }
    assert events["tool_added"].data == {"old_version": None, "new_version": "1.0.0"}
    assert events["tool_removed"].data == {"old_version": "1.0.0", "new_version": None}
    assert events["tool_updated"].data == {
        "old_version": "1.0.0",
        "new_version": "2.0.0",
        "level": "cosmetic",
        "changes": [
            {
                "path": "version",
                "kind": "version_changed",
                "level": "cosmetic",
                "old": "1.0.0",
                "new": "2.0.0",
                "message": 'changed from "1.0.0" to "2.0.0"',
            }
        ],
    }
    assert events["tool_updated"].tool is engine.get("changes")
    assert (await engine.execute("goes")).error_type == "tool_not_found"


async def test_nothing_changed(tmp_path: Path, engine: ToolEngine) -> None:
    """K49: a look that finds nothing new changes nothing, and closes its pair of events."""
    write(tmp_path, "one")
    await engine.reload()
    tool, generation = engine.get("one"), engine.generation
    heard = Heard(engine)
    assert await engine.reload() == {"added": [], "modified": [], "removed": []}
    assert heard.take() == [("reload_started", None), ("reload_completed", None)]
    assert engine.get("one") is tool
    assert engine.generation == generation


@pytest.mark.parametrize("keys", [{"default": "ho"}, {"description": "Other"}, {"version": "1.1"}])
async def test_any_edit_counts(tmp_path: Path, engine: ToolEngine, keys: dict[str, str]) -> None:
    """U10: any change of content is a modification, a parameter's default as well."""
    write(tmp_path, "one")
    await engine.reload()
    before = engine.get_or_raise("one").definition_hash
    write(tmp_path, "one", **keys)
    assert (await engine.reload())["modified"] == ["one"]
    assert engine.get_or_raise("one").definition_hash != before
    assert (await engine.execute("one")).output == {"message": keys.get("default", "hi")}


async def test_edit_that_says_the_same(tmp_path: Path, engine: ToolEngine) -> None:
    """U10: a comment is no change of content."""
    path = write(tmp_path, "one")
    await engine.reload()
    path.write_text("# a comment\n" + path.read_text(encoding="utf-8"), encoding="utf-8")
    assert (await engine.reload())["modified"] == []


async def test_broken_file_keeps_its_last_good_tool(tmp_path: Path, engine: ToolEngine) -> None:
    """U12, U13: a file that breaks keeps its tool and publishes LOAD_ERROR for what is new."""
    path = write(tmp_path, "one")
    await engine.reload()
    heard = Heard(engine)
    path.write_text("name: one\nversion: [", encoding="utf-8")
    with capture_logs() as logs:
        assert await engine.reload() == {"added": [], "modified": [], "removed": []}
    event = heard.events[1]
    assert heard.take() == [
        ("reload_started", None),
        ("load_error", None),
        ("reload_completed", None),
    ]
    assert event.data == {"file": str(path)}
    assert str(path) in str(event.error)
    assert [log["event"] for log in logs] == ["load_error"]
    assert (await engine.execute("one")).output == {"message": "hi"}
    write(tmp_path, "two")
    heard.take()
    await engine.reload()
    assert "load_error" not in {kind for kind, _ in heard.take()}
    path.write_text("name: one\nversion: 1", encoding="utf-8")
    await engine.reload()
    assert ("load_error", None) in heard.take()
    write(tmp_path, "one", default="mended")
    await engine.reload()
    assert heard.take()[-2:] == [("load_mended", None), ("reload_completed", None)]
    assert engine.load_errors == []
    assert (await engine.execute("one")).output == {"message": "mended"}


async def test_two_files_claim_one_name(tmp_path: Path, engine: ToolEngine) -> None:
    """U13: a name in two files is an error that names both; the tool that was there stays."""
    write(tmp_path, "one")
    await engine.reload()
    write(tmp_path, "one", file="other.yaml", default="other")
    await engine.reload()
    assert sorted(Path(file).name for file, _ in engine.load_errors) == ["one.yaml", "other.yaml"]
    assert all("one.yaml" in text and "other.yaml" in text for _, text in engine.load_errors)
    assert (await engine.execute("one")).output == {"message": "hi"}


async def test_missing_directory(tmp_path: Path, config: ToolEngineConfig) -> None:
    """U11: a folder that goes away removes its tools, and the pair of events is closed."""
    folder = tmp_path / "tools"
    folder.mkdir()
    write(folder, "one")
    async with ToolEngine(ToolEngineConfig(str(folder), auto_reload=False)) as engine:
        engine.register_tool({**MADE}, lambda: 1)
        heard = Heard(engine)
        (folder / "one.yaml").unlink()
        folder.rmdir()
        changes = await engine.reload()
        assert changes["removed"] == ["one"]
        kinds = [kind for kind, _ in heard.take()]
        assert (kinds[0], kinds[-1]) == ("reload_started", "reload_completed")
        assert "load_error" in kinds
        assert engine.list_names() == ["made"]
        folder.mkdir()
        write(folder, "one")
        assert (await engine.reload())["added"] == ["one"]
        assert engine.load_errors == []


MADE = {
    "name": "made",
    "version": "1.0.0",
    "description": "Made in code",
    "category": "custom",
    "entry": {"type": "custom", "handler": "made"},
}


async def test_what_code_registers_is_no_reload(tmp_path: Path, engine: ToolEngine) -> None:
    """K49: a look at a folder that is as it was publishes nothing, though tools came from code."""
    write(tmp_path, "one")
    await engine.reload()
    engine.register_tool(MADE, lambda: 1)
    heard, generation = Heard(engine), engine.generation
    assert await engine._reloader._answer_watcher(None, 0.0) == frozenset()
    assert heard.take() == []
    assert engine.generation == generation


async def test_registered_tools_survive(tmp_path: Path, engine: ToolEngine) -> None:
    """U11: a tool from code stays across reloads, and a file cannot take its name."""
    engine.register_tool(MADE, lambda: 1)
    write(tmp_path, "one")
    write(tmp_path, "made")
    assert (await engine.reload())["added"] == ["one"]
    assert [Path(file).name for file, _ in engine.load_errors] == ["made.yaml"]
    assert (await engine.execute("made")).output == {"result": 1}


async def test_tool_registered_during_a_reload(tmp_path: Path, engine: ToolEngine) -> None:
    """U11: what is registered while a reload looks at the folder is not lost."""
    write(tmp_path, "one")
    reloading = asyncio.create_task(engine.reload())
    await asyncio.sleep(0)
    engine.register_tool(MADE, lambda: 1)
    await reloading
    assert engine.list_names() == ["made", "one"]


async def test_calls_in_flight_keep_their_definition(tmp_path: Path, engine: ToolEngine) -> None:
    """K49: a call finishes on the definition that it started with; the next one has the new one."""
    running, go = asyncio.Event(), asyncio.Event()

    class Slow:
        async def execute(self, tool: Any, params: dict[str, Any], context: Any) -> Any:
            running.set()
            await go.wait()
            return {"version": tool.version, **params}

    engine.register_executor("slow", Slow())
    write(tmp_path, "one", handler="slow")
    await engine.reload()
    call = asyncio.create_task(engine.execute("one"))
    await asyncio.wait_for(running.wait(), BOUND)
    write(tmp_path, "one", handler="slow", version="2.0.0", default="new")
    await engine.reload()
    (tmp_path / "one.yaml").unlink()
    go.set()
    first = await asyncio.wait_for(call, BOUND)
    assert first.output == {"version": "1.0.0", "message": "hi"}
    assert first.metadata["tool_version"] == "1.0.0"
    second = await asyncio.wait_for(engine.execute("one"), BOUND)
    assert second.output == {"version": "2.0.0", "message": "new"}
    records = await engine.query_call_records(tool_name="one")
    assert [record.tool_version for record in records] == ["2.0.0", "1.0.0"]


async def test_queued_call_keeps_its_definition(tmp_path: Path, engine: ToolEngine) -> None:
    """K49: a call that waits for a slot runs on the definition that checked its arguments."""
    write(tmp_path, "one")
    await engine.reload()
    engine.controller.pause()
    call = asyncio.create_task(engine.execute("one"))
    await asyncio.sleep(0)
    write(tmp_path, "one", default="new", version="2.0.0")
    await engine.reload()
    engine.controller.resume()
    result = await asyncio.wait_for(call, BOUND)
    assert (result.output, result.metadata["tool_version"]) == ({"message": "hi"}, "1.0.0")


async def test_reloads_at_once_come_one_after_the_other(tmp_path: Path, engine: ToolEngine) -> None:
    """K49: reloads that are asked for together do not mix: each pair of events is whole."""
    write(tmp_path, "one")
    heard = Heard(engine)
    async with asyncio.timeout(BOUND), asyncio.TaskGroup() as group:
        reloads = [group.create_task(engine.reload()) for _ in range(3)]
    assert sorted(len(each.result()["added"]) for each in reloads) == [0, 0, 1]
    kinds = [kind for kind, _ in heard.take() if kind.startswith("reload")]
    assert kinds == ["reload_started", "reload_completed"] * 3


async def test_failing_reload_closes_its_pair(
    tmp_path: Path, engine: ToolEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """U11: a reload that is cancelled in the middle closes its pair of events too."""
    write(tmp_path, "one")
    heard = Heard(engine)
    reloading = asyncio.create_task(engine.reload())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    reloading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reloading
    assert heard.take() == [("reload_started", None), ("reload_completed", None)]
    assert (await engine.reload())["added"] == ["one"]


@pytest.mark.parametrize(
    "keys",
    [
        {"auto_reload": True, "reload_interval": 0.05},
        {"auto_reload": False, "watch_for_changes": True},
        {"auto_reload": True, "reload_interval": 0.05, "watch_for_changes": True},
    ],
    ids=["polling", "watching", "both"],
)
async def test_reloads_by_itself(tmp_path: Path, keys: dict[str, Any]) -> None:
    """K49, U9: `auto_reload` polls and `watch_for_changes` watches, and both really reload."""
    path = write(tmp_path, "one")
    config = ToolEngineConfig(tools_directory=str(tmp_path), **keys)
    async with asyncio.timeout(BOUND), ToolEngine(config) as engine:
        stream = engine.events(["tool_updated", "tool_added", "tool_removed", "load_error"])
        assert (await engine.execute("one")).output == {"message": "hi"}
        write(tmp_path, "one", default="new")
        event = await anext(stream)
        assert (event.event_type.value, event.tool_name) == ("tool_updated", "one")
        assert (await engine.execute("one")).output == {"message": "new"}
        write(tmp_path, "two")
        event = await anext(stream)
        assert (event.event_type.value, event.tool_name) == ("tool_added", "two")
        path.unlink()
        event = await anext(stream)
        assert (event.event_type.value, event.tool_name) == ("tool_removed", "one")


async def test_reloads_nothing_by_itself(tmp_path: Path, engine: ToolEngine) -> None:
    """K48: with neither, a changed file waits for `reload`; no task and no thread looks."""
    write(tmp_path, "one")
    assert engine.list_names() == []
    assert {task.get_name() for task in asyncio.all_tasks()} & {"tool-watcher"} == set()


async def test_recursive(tmp_path: Path) -> None:
    """U20: sub-folders are looked at when `recursive` says so."""
    (tmp_path / "deep").mkdir()
    write(tmp_path / "deep", "one")
    for recursive in (False, True):
        config = ToolEngineConfig(
            tools_directory=str(tmp_path), auto_reload=False, recursive=recursive
        )
        async with ToolEngine(config) as engine:
            assert engine.list_names() == (["one"] if recursive else [])


async def test_load_again_starts_no_second_watcher(tmp_path: Path) -> None:
    """U9: loading twice watches once."""
    config = ToolEngineConfig(tools_directory=str(tmp_path), reload_interval=60)
    async with ToolEngine(config) as engine:
        before = asyncio.all_tasks()
        await engine.load()
        assert asyncio.all_tasks() == before


async def test_entry_that_its_executor_refuses(tmp_path: Path, engine: ToolEngine) -> None:
    """U13: what the executor says is wrong with an entry is a load error too."""
    text = DEFINITION.format(
        name="one", version="1", description="x", default="x", handler="http_request"
    ).replace('version: "1"', 'version: "1.0.0"')
    (tmp_path / "one.yaml").write_text(text + "  request: {url: 3}\n", encoding="utf-8")
    await engine.reload()
    assert engine.list_names() == []
    assert len(engine.load_errors) == 1


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("bucket_limits", 2),
        ("bucket_queue_sizes", 2),
        ("bucket_rates", ToolRate(1, 1.0)),
        ("breakers", BreakerPolicy()),
    ],
)
def test_settings_for_unknown_buckets(field: str, value: Any) -> None:
    """C13: a typo in any setting of buckets is told with the setting and the nearest bucket."""
    text = "{name: t, description: d, concurrency: {bucket: search}}"
    index = ToolIndex([ToolConfigLoader().load_text(text)])
    names = ["zzz", "serach", "search", "htpp", "http", "ai"]
    settings: dict[str, Any] = {field: dict.fromkeys(names, value)}
    config = ConcurrencyConfig(**settings)
    assert limit_warnings(config, index) == [
        f"{field} names 'htpp', which no tool uses; did you mean 'http'?",
        f"{field} names 'serach', which no tool uses; did you mean 'search'?",
        f"{field} names 'zzz', which no tool uses",
    ]
    assert limit_warnings(ConcurrencyConfig(), index) == []


def test_each_setting_has_its_own_warning() -> None:
    """C13: one wrong name in two settings is two slips of the pen."""
    config = ConcurrencyConfig(
        bucket_limits={"htpp": 1},
        breakers={"htpp": BreakerPolicy()},
    )
    assert [each.split()[0] for each in limit_warnings(config, ToolIndex())] == [
        "bucket_limits",
        "breakers",
    ]


def stall_looks(engine: ToolEngine, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Any]:
    """The next look stops in its thread until told to go on."""
    began, go = threading.Event(), threading.Event()
    catalog = engine._reloader._catalog
    look = catalog.look

    def stalled(*args: Any, **keys: Any) -> Any:
        began.set()
        assert go.wait(BOUND)
        return look(*args, **keys)

    monkeypatch.setattr(catalog, "look", stalled)
    return began, go


async def test_a_reload_that_fails_closes_its_pair(
    engine: ToolEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """U11: whatever goes wrong in a reload: the pair is closed, says why, and nothing changed."""

    def fail(*args: Any, **keys: Any) -> Any:
        raise RuntimeError("the disk is on fire")

    heard = Heard(engine)
    with monkeypatch.context() as patch:
        patch.setattr(engine._reloader._catalog, "look", fail)
        with pytest.raises(RuntimeError):
            await engine.reload()
    started, completed = heard.events
    assert (started.error, completed.error) == (None, "the disk is on fire")
    assert completed.data == {"added": [], "modified": [], "removed": [], "generation": 0}
    assert await engine.reload() == {"added": [], "modified": [], "removed": []}


async def test_close_waits_for_a_reload(
    tmp_path: Path, config: ToolEngineConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An engine that closes in the middle of a reload publishes the end of the pair first."""
    engine = ToolEngine(config)
    await engine.load()
    write(tmp_path, "one")
    heard = Heard(engine)
    began, go = stall_looks(engine, monkeypatch)
    reloading = asyncio.create_task(engine.reload())
    waiting = asyncio.create_task(engine.reload())
    await asyncio.to_thread(began.wait, BOUND)
    closing = asyncio.create_task(engine.close())
    await asyncio.sleep(0)
    go.set()
    await asyncio.wait_for(closing, BOUND)
    for each in (reloading, waiting):
        with pytest.raises(EngineClosedError):
            await asyncio.wait_for(each, BOUND)
    assert heard.take() == [("reload_started", None), ("reload_completed", None)]
    assert engine.list_names() == []


async def test_close_gives_up_on_a_reload_that_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder that does not answer keeps no engine from closing; the pair is closed, once."""
    engine = ToolEngine(ToolEngineConfig(str(tmp_path), auto_reload=False, close_timeout=0.05))
    await engine.load()
    write(tmp_path, "one")
    heard = Heard(engine)
    began, go = stall_looks(engine, monkeypatch)
    reloading = asyncio.create_task(engine.reload())
    await asyncio.to_thread(began.wait, BOUND)
    await asyncio.wait_for(engine.close(), BOUND)
    assert heard.events[-1].error == "the engine was closed meanwhile"
    assert heard.take() == [("reload_started", None), ("reload_completed", None)]
    go.set()
    with pytest.raises(EngineClosedError):
        await asyncio.wait_for(reloading, BOUND)
    assert heard.take() == []
    assert engine.list_names() == []


async def test_close_during_the_first_look(
    tmp_path: Path, config: ToolEngineConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A load that is overtaken by the close says so."""
    write(tmp_path, "one")
    engine = ToolEngine(config)
    began, go = stall_looks(engine, monkeypatch)
    loading = asyncio.create_task(engine.load())
    await asyncio.to_thread(began.wait, BOUND)
    closing = asyncio.create_task(engine.close())
    await asyncio.sleep(0)
    go.set()
    await asyncio.wait_for(closing, BOUND)
    with pytest.raises(EngineClosedError):
        await asyncio.wait_for(loading, BOUND)


async def test_what_is_seen_before_the_first_look_waits_for_it(
    tmp_path: Path, config: ToolEngineConfig
) -> None:
    """K46: tools that the watcher saw first are loaded, not added: the first look tells of them."""
    write(tmp_path, "one")
    engine = ToolEngine(config)
    heard = Heard(engine)
    assert await engine._reloader._answer_watcher(None, 0.0) == []
    assert heard.take() == []
    await engine.load()
    assert heard.take() == [("tool_loaded", "one")]
    await engine.close()


async def test_cancelled_rollback(tmp_path: Path, engine: ToolEngine) -> None:
    """A rollback that is cancelled while it waits has rolled back nothing, and holds nothing."""
    write(tmp_path, "one")
    await engine.reload()
    heard = Heard(engine)
    going_back = asyncio.create_task(engine.rollback(0))
    await asyncio.sleep(0)
    going_back.cancel()
    with pytest.raises(asyncio.CancelledError):
        await going_back
    assert heard.take() == [("reload_started", None), ("reload_completed", None)]
    assert engine.list_names() == ["one"]
    assert engine.get_statistics()["held"] == []


async def test_a_suggestion_for_a_name_that_is_not_there(
    tmp_path: Path, engine: ToolEngine
) -> None:
    """The error of a call names what is near, and says so when nothing was loaded yet."""
    write(tmp_path, "one")
    await engine.reload()
    assert "did you mean 'one'?" in str((await engine.execute("onee")).error)
    fresh = ToolEngine(ToolEngineConfig(str(tmp_path)))
    assert "the definitions are not loaded" in str((await fresh.execute("one")).error)
    await fresh.close()


async def test_a_look_that_finds_nothing_is_no_reload(tmp_path: Path) -> None:
    """K49: the watcher looks all the time; only what changed makes a reload and its events."""
    write(tmp_path, "one")
    config = ToolEngineConfig(str(tmp_path), reload_interval=0.01, watch_for_changes=True)
    async with asyncio.timeout(BOUND), ToolEngine(config) as engine:
        heard = Heard(engine)
        (tmp_path / "one.yaml").touch()
        (tmp_path / "two.yaml").write_text("name: two\n", encoding="utf-8")
        async with engine.events("load_error") as errors:
            await anext(errors)
        write(tmp_path, "two")
        async with engine.events("tool_added") as added:
            await anext(added)
        write(tmp_path, "three")
        async with engine.events("tool_added") as added:
            await anext(added)
        kinds = [kind for kind, _ in heard.take() if kind.startswith("reload")]
    assert kinds == ["reload_started", "reload_completed"] * 3


async def test_a_change_whose_reload_failed_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K49: what was seen and could not be merged is merged at the next look, changed or not."""
    config = ToolEngineConfig(str(tmp_path), reload_interval=0.01)
    async with asyncio.timeout(BOUND), ToolEngine(config) as engine:
        failing = engine._registry.prepare
        calls = 0

        def prepare(tools: Any = ()) -> None:
            nonlocal calls
            calls += 1
            if calls == 1:
                raise RuntimeError("broken on purpose")
            failing(tools)

        monkeypatch.setattr(engine._registry, "prepare", prepare)
        async with engine.events("tool_added") as added:
            write(tmp_path, "one")
            event = await anext(added)
    assert event.tool_name == "one"
    assert calls == 2


async def test_a_file_that_comes_and_goes(
    tmp_path: Path, engine: ToolEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """U13: a file that is gone before anybody could read it is no tool, and no error either."""
    path = write(tmp_path, "one")
    rest = time.sleep

    def remove_and_rest(seconds: float) -> None:
        path.unlink(missing_ok=True)
        rest(seconds)

    monkeypatch.setattr(time, "sleep", remove_and_rest)
    assert await engine.reload() == {"added": [], "modified": [], "removed": []}
    assert (engine.list_names(), engine.load_errors) == ([], [])
