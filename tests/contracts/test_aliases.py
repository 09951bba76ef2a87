"""Does a further name of a tool never open what the name forbids, and always do what it does?"""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.protocols import wire_openai, wire_vcp
from tool_engine import (
    ConcurrencyConfig,
    ToolCall,
    ToolEngine,
    ToolEngineConfig,
    ToolExecutionContext,
    ToolSubAgent,
)
from tool_engine.catalog.index import ToolIndex
from tool_engine.catalog.loader import ToolConfigLoader
from tool_engine.cli.app import run
from tool_engine.errors import ConfigurationError, DefinitionError, ToolNotFoundError
from tool_engine.model.call import ToolExecutionResult
from tool_engine.model.tool import Tool
from tool_engine.protocols import CombinedTools, CycleOptions, get_protocol, process_tool_calls
from tool_engine.session import combine, keep, prefix, prepare, rename
from tool_engine.session.session import ToolSession

NAME, ALIAS = "find.notes", "search_notes"
SENT: dict[str, Any] = {"query": "x"}
GROUP = {"name": "notes", "tools": [NAME], "enabled": True}


@asynccontextmanager
async def open_engine(config: Any = None, **keys: Any) -> AsyncIterator[ToolEngine]:
    given_config = ToolEngineConfig("none", auto_reload=False) if config is None else config
    async with ToolEngine(given_config) as engine:

        @engine.tool(NAME, aliases=[ALIAS], **keys)
        async def find(query: str, context: ToolExecutionContext) -> str:
            """Finds notes."""
            return f"found {query}"

        @engine.tool("ask.notes")
        async def ask(name: str, context: ToolExecutionContext) -> dict[str, Any]:
            """Asks another tool."""
            inner = await context.call(name, SENT)
            return {"type": inner.error_type, "said": inner.error, "output": inner.output}

        engine.register_group(GROUP)
        yield engine


# Each way in, each refusal.


async def call_reply(
    engine: Any, name: str, protocol: str = "openai", **options: Any
) -> ToolExecutionResult:
    wire: Any = {"openai": wire_openai, "vcp": wire_vcp}[protocol]
    call = ToolCall(call_id="c1", tool_name=name, arguments=SENT)
    cycle = await process_tool_calls(
        engine, wire.render_reply([call]), protocol, CycleOptions(**options)
    )
    return cycle.execution_results[0]


def open_session(engine: Any, **settings: Any) -> ToolSession:
    return ToolSession(engine, "chat", settings)


async def use_twice(engine: ToolEngine, name: str) -> ToolExecutionResult:
    session = open_session(engine, max_uses={NAME: 1})
    assert (await session.execute(NAME, SENT)).is_success
    return await session.execute(name, SENT)


Way = Callable[[ToolEngine, str], Awaitable[ToolExecutionResult]]
WAYS: dict[str, Way] = {
    "engine": lambda engine, name: engine.execute(name, SENT),
    "another tool": lambda engine, name: engine.execute("ask.notes", {"name": name}),
    "reply": call_reply,
    "reply in text": lambda engine, name: call_reply(engine, name, "vcp"),
    "session": lambda engine, name: open_session(engine).execute(name, SENT),
    "reply in a session": lambda engine, name: call_reply(open_session(engine), name),
    "sub-agent": lambda engine, name: ToolSubAgent("a", engine).execute(name, SENT),
    "prefix": lambda engine, name: prefix(engine, "a_").execute(f"a_{name}", SENT),
    "rename": lambda engine, name: rename(engine, {"ask.notes": "b"}).execute(name, SENT),
    "keep": lambda engine, name: keep(engine, [NAME]).execute(name, SENT),
    "prepare": lambda engine, name: prepare(engine, lambda tool, _: tool).execute(name, SENT),
    "combine": lambda engine, name: combine(engine).execute(name, SENT),
    "combined": lambda engine, name: CombinedTools({"a": engine}).execute(name, SENT),
    "session of views": lambda engine, name: open_session(
        prefix(keep(engine, [NAME]), "a_")
    ).execute(f"a_{name}", SENT),
    "helper": lambda engine, name: open_session(engine).derive().execute(name, SENT),
    # Refused.
    "denied": lambda engine, name: open_session(engine, rules={NAME: "deny"}).execute(name, SENT),
    "denied, in a reply": lambda engine, name: call_reply(
        open_session(engine, rules={"find.*": "deny"}), name
    ),
    "denied to another tool": lambda engine, name: open_session(
        engine, rules={NAME: "deny"}
    ).execute("ask.notes", {"name": name}),
    "off": lambda engine, name: open_session(engine, tool_toggles={NAME: False}).execute(
        name, SENT
    ),
    "group off": lambda engine, name: open_session(engine, group_toggles={"notes": False}).execute(
        name, SENT
    ),
    "group denied": lambda engine, name: open_session(
        engine, group_permissions={"notes": "deny"}
    ).execute(name, SENT),
    "not kept": lambda engine, name: keep(engine, ["ask.notes"]).execute(name, SENT),
    "not named": lambda engine, name: call_reply(engine, name, tools=["ask.notes"]),
    "not approved": lambda engine, name: call_reply(
        engine, name, on_before_execute=lambda call, tool: tool.name != NAME
    ),
    "no use left": use_twice,
}


def described(result: ToolExecutionResult, name: str) -> list[Any]:
    """What it came to, whatever it was called."""
    said = str([result.error, result.output, getattr(result, "final_text", None)])
    return [result.is_success, result.error_type, said.replace(name, "NAME").replace(NAME, "NAME")]


@pytest.mark.parametrize("way", WAYS)
async def test_it_does_what_the_name_does(way: str) -> None:
    """17.8: in each way in, and with each refusal; records and limits know one tool."""
    async with open_engine() as engine:
        called = await WAYS[way](engine, NAME)
        by_alias = await WAYS[way](engine, ALIAS)
        assert described(by_alias, ALIAS) == described(called, NAME)
        assert {each.tool_name for each in await engine.query_call_records()} <= {NAME, "ask.notes"}


@pytest.mark.parametrize("keys", [{"rate": "1/h"}, {"status": "draft"}, {"permission": "deny"}])
@pytest.mark.parametrize("way", ["engine", "reply", "session", "prefix", "sub-agent"])
async def test_limits_of_the_definition(keys: dict[str, Any], way: str) -> None:
    """17.8: what its definition says holds for all of its names together."""
    config = ToolEngineConfig(
        "none", auto_reload=False, concurrency=ConcurrencyConfig(strategy="reject")
    )
    found = []
    for first, then in itertools.product((NAME, ALIAS), repeat=2):
        async with open_engine(config, **keys) as engine:
            results = [await WAYS[way](engine, first), await WAYS[way](engine, then)]
            found.append([(each.is_success, each.error_type) for each in results])
    assert all(each == found[0] for each in found), found


async def test_what_is_kept_of_it() -> None:
    """17.8: result, record and events bear the tool's name; the result says how it was called."""
    async with open_engine() as engine:
        heard: list[Any] = []
        engine.subscribe(heard.append)
        result = await engine.execute(ALIAS, SENT)
        assert (result.tool_name, result.metadata["called_as"]) == (NAME, ALIAS)
        assert "called_as" not in (await engine.execute(NAME, SENT)).metadata
        (record, *_) = await engine.query_call_records()
        assert record.tool_name == NAME
        assert {each.tool_name for each in heard} == {NAME}
        (repair,) = (await call_reply(engine, ALIAS)).metadata["repairs"]
        assert ALIAS in repair
        assert NAME in repair


async def test_toggles_by_an_alias() -> None:
    """17.8: a toggle is the tool's; a setting that names an alias is a finding with the name."""
    async with open_engine() as engine:
        session = open_session(engine)
        session.toolbox.set_tool_enabled(ALIAS, enabled=False)
        assert session.toolbox.config.tool_toggles == {NAME: False}
        assert not session.toolbox.is_tool_enabled(NAME)
        (finding,) = open_session(engine, tool_toggles={ALIAS: False}).findings
        assert ALIAS in finding
        with pytest.raises(ConfigurationError, match="there is no tool"):
            session.toolbox.set_tool_enabled("nowhere", enabled=False)


async def test_registering_what_is_taken() -> None:
    """17.8: an alias that another tool has is refused with both places; a name comes first."""
    async with open_engine() as engine:
        for keys in ({"aliases": [NAME]}, {"aliases": [ALIAS]}, {"aliases": ["ask_notes"]}):
            with pytest.raises(DefinitionError, match=r"also means '(find|ask)\.notes' in <code>"):
                engine.register_tool(
                    {"name": "other", "description": "Does it.", **keys}, lambda: 0
                )
        assert "other" not in engine.list_names()

        @engine.tool(ALIAS)
        async def named(query: str) -> str:
            """Bears the name."""
            return "named"

        assert (await engine.execute(ALIAS, SENT)).output == {"result": "named"}
        assert any(ALIAS in message for _, message in engine.load_errors)
        engine.unregister_tool(ALIAS)
        assert (await engine.execute(ALIAS, SENT)).tool_name == NAME
        engine.unregister_tool(ALIAS)
        with pytest.raises(ToolNotFoundError):
            engine.get_or_raise(NAME)


def write(folder: Path, name: str, **keys: Any) -> None:
    lines = "".join(f"{key}: {value}\n" for key, value in keys.items())
    entry = "entry: {type: custom, handler: echo}\nparameters: []\n"
    (folder / f"{name}.yaml").write_text(f"name: {name}\ndescription: Echoes.\n{entry}{lines}")


async def test_files_that_claim_one_name(tmp_path: Path) -> None:
    """17.8: both files are named, both tools stay under their names, and the alias means none."""
    write(tmp_path, "a", aliases="[both, c]")
    write(tmp_path, "b", aliases="[both]")
    write(tmp_path, "c")
    async with ToolEngine(ToolEngineConfig(str(tmp_path), auto_reload=False)) as engine:
        errors = dict(engine.load_errors)
        assert sorted(Path(file).name for file in errors) == ["a.yaml", "b.yaml"]
        assert engine.get("both") is None
        assert engine.get_or_raise("c").name == "c"
        assert not (await engine.execute("both", {})).is_success
        write(tmp_path, "b")
        write(tmp_path, "a", aliases="[both]")
        await engine.reload()
        assert engine.load_errors == []
        assert engine.get_or_raise("both").name == "a"


def tools(names: dict[str, tuple[str, ...]]) -> Iterator[Tool]:
    for name, aliases in names.items():
        yield ToolConfigLoader().from_mapping(
            {
                "name": name,
                "description": "x",
                "aliases": [each for each in aliases if each != name],
            }
        )


SETS = st.dictionaries(
    st.sampled_from("abcd"), st.lists(st.sampled_from("abcdef"), unique=True).map(tuple)
)


@given(before=SETS, after=SETS)
def test_any_tools(before: dict[str, tuple[str, ...]], after: dict[str, tuple[str, ...]]) -> None:
    """17.8: a snapshot that follows another one means by each name what a new one would."""
    new = {tool.name: tool for tool in tools(after)}
    changes = {**dict.fromkeys(before), **new}
    index, fresh = ToolIndex(tools(before)).with_changes(changes), ToolIndex(new.values())
    for word in "abcdef":
        found = index.find(word)
        assert found == fresh.find(word)
        claims = [name for name, each in after.items() if word in each and name != word]
        expected = word if word in after else claims[0] if len(claims) == 1 else None
        assert (None if found is None else found.name) == expected


# The command of VCP.


def write_vcp(**fields: str) -> str:
    lines = ",\n".join(f"{key}:「始」{value}「末」" for key, value in fields.items())
    return f"<<<[TOOL_REQUEST]>>>\n{lines}\n<<<[END_TOOL_REQUEST]>>>"


@pytest.fixture
async def files() -> AsyncIterator[ToolEngine]:
    async with ToolEngine(ToolEngineConfig("none", auto_reload=False)) as engine:
        for name, command in (("files_read", "ReadFile"), ("files_list", None)):

            @engine.tool(name, **({} if command is None else {"vcp_command": command}))
            async def work(number: int, name: str = name) -> str:
                """Works on files."""
                return f"{name} {number + 1}"

        yield engine


@pytest.mark.parametrize(
    ("fields", "outcome"),
    [
        ({"tool_name": "files_read", "command": "ReadFile"}, "files_read 2"),
        ({"tool_name": "files", "command": "ReadFile"}, "files_read 2"),
        ({"tool_name": "files_read", "command": "read"}, "files_read 2"),
        ({"tool_name": "files", "command": "read"}, "files_read 2"),
        ({"tool_name": "files_read"}, "files_read 2"),
        ({"tool_name": "files_list", "command": "ReadFile"}, None),
        ({"tool_name": "others", "command": "ReadFile"}, None),
        ({"tool_name": "ReadFile"}, None),
    ],
)
@pytest.mark.parametrize("is_told", [False, True])
async def test_vcp_command(
    files: ToolEngine, fields: dict[str, str], outcome: str | None, *, is_told: bool
) -> None:
    """X2, 17.8: it is told in VCP's definitions, and read with the tool or its owner, only."""
    protocol = get_protocol("vcp")
    if is_told:
        assert "command:「始」ReadFile「末」" in str(protocol.definitions(files.list_all()))
    reply = write_vcp(**fields, number="1")
    (result,) = (await process_tool_calls(files, reply, protocol)).execution_results
    assert result.is_success is (outcome is not None), result.error
    assert outcome is None or result.output == {"result": outcome}


async def test_vcp_command_of_numbered_calls(files: ToolEngine) -> None:
    """X2, U28: a block of several calls names each by its command."""
    protocol = get_protocol("vcp", tools=files.list_all())
    reply = write_vcp(
        tool_name="files", command1="ReadFile", number1="1", command2="list", number2="2"
    )
    results = (await process_tool_calls(files, reply, protocol)).execution_results
    assert [each.output for each in results] == [
        {"result": "files_read 2"},
        {"result": "files_list 3"},
    ]


async def test_a_command_that_two_tools_have(files: ToolEngine) -> None:
    """X2, 17.8: it is refused where it is registered."""
    with pytest.raises(DefinitionError, match="'ReadFile' of 'files'"):
        files.register_tool(
            {"name": "files_see", "description": "Sees.", "vcp_command": "ReadFile"}, lambda: 0
        )


def test_what_validate_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """17.8: an alias that is not clear is a warning about each of its files, before they run."""
    write(tmp_path, "a", aliases="[both]")
    write(tmp_path, "b", aliases="[both]")
    assert run(["validate", str(tmp_path)]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert out.count("also means") == 2
