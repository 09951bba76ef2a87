"""Every place that offers a near name: each is asked with another case, mark or ending.

A row is a place and a way to get its message; the message must ask for the name that was meant. All
of them look with `tool_engine.model.checks.nearness`: `test_every_place_has_a_row` finds a place
that is missing here, and `test_there_is_one_way` a second way to look.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import tempfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec import structs

from tests.meta.sources import tree
from tool_engine import (
    ConcurrencyConfig,
    MCPSource,
    Tool,
    ToolCallConfig,
    ToolConfigLoader,
    ToolEngine,
    ToolEngineConfig,
    ToolParameterValidator,
    ToolSession,
    Variable,
    VariableStore,
    chat_model,
    get_protocol,
)
from tool_engine.agent.models.script import read_script
from tool_engine.catalog.folder.bucket_names import limit_warnings
from tool_engine.catalog.index import ToolIndex
from tool_engine.catalog.lint import choose_rules
from tool_engine.catalog.servers.config_file import read_config_file, read_entries
from tool_engine.cli.app import run
from tool_engine.cli.chat.turns import answer_command
from tool_engine.cli.mcp.mcp_command import _check_word
from tool_engine.executors.calculator import calculate
from tool_engine.executors.executor_registry import ExecutorRegistry
from tool_engine.executors.result_reading import _suggest_key
from tool_engine.executors.workflow.evaluation import _list_keys
from tool_engine.integrations.offered_tools import OfferedTools
from tool_engine.model.settings.databases import checked_sources
from tool_engine.session.toolbox.toolbox import Toolbox
from tool_engine.sources.combined_tools import CombinedTools
from tool_engine.sources.composition import combine, keep
from tool_engine.sources.foreign import as_source

PACKAGE = Path(__file__).parents[2] / "tool_engine"
HEAD = "name: t\ndescription: Does a thing.\n"
Q = HEAD + "parameters: [{name: query, type: string, required: true, description: x}]\n"
GET = Q + "entry: {type: http, request: {url: 'https://example.com/{query}'%s}%s}\n"
SQL = Q + "entry: {type: builtin, handler: sql_query, source: s, %s}\n"
RUN = Q + "entry: {type: builtin, handler: run_command, %s}\n"
STEPS = Q + "entry: {type: workflow, steps: [%s]}\n"
GROUP = "kind: group\nname: g\ndescription: A group.\n"


def definition(text: str) -> Callable[[], str]:
    """All that is said of a definition: by the loader, its findings, and its executor."""

    def said() -> str:
        made = ToolConfigLoader().load_definitions(text, "t.yaml")
        problems = [str(each) for tool in made for each in ExecutorRegistry().check(tool)]  # type: ignore[arg-type] # tools
        raise LookupError(
            "\n".join([*problems, *(each for tool in made for each in tool.findings)])
        )

    return said


def of(call: Callable[..., Any], *args: Any, **options: Any) -> Callable[[], Any]:
    """A call that fails."""
    return lambda: call(*args, **options)


def output(*words: str) -> Callable[[], Any]:
    """What a command line says."""

    def said() -> Any:
        run(["--tools", str(Path(__file__).parents[2] / "tools"), "--records", "none", *words])

    return said


def _say_of_settings(text: str) -> None:
    """What a command line says in a project with these settings."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "tool-engine.toml").write_text(text)
        run(["--directory", folder, "list"])


def _show_broken(name: str) -> None:
    """What a command line says of a name beside a file that could not be loaded."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "broken.yaml").write_text("name: broken\n")
        run(["--tools", folder, "--records", "none", "show", name])


def _say_variable(name: str) -> None:
    """What a command says of a variable of the environment."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(name, "x")
        run(["list"])


def _asked(text: str) -> None:
    """What a conversation at a terminal says."""
    raise LookupError(answer_command(cast("ToolSession", None), text))


def findings(text: str, arguments: dict[str, Any]) -> Callable[[], str]:
    """What validation says of arguments."""

    def said() -> str:
        tool = ToolConfigLoader().load_text(text)
        raise LookupError(str(ToolParameterValidator().validate(tool, arguments)))

    return said


def _read_servers(entries: dict[str, Any] | None = None, *, file: str = "") -> None:
    """What is said of servers in a configuration, or in a file."""
    if entries is not None:
        raise LookupError(str(read_entries(entries, "mcp_servers").errors))
    with TemporaryDirectory() as folder:
        path = Path(folder, ".mcp.json")
        path.write_text(file)
        raise LookupError(str(read_config_file(str(path)).errors))


TOOL = ToolConfigLoader().load_text(Q)
SYNC: list[tuple[str, Callable[[], Any], str]] = [
    (
        "cli/mcp/mcp_command.py",
        lambda: _check_word("--mode", "serch", ("all", "search")),
        "search",
    ),
    # Definitions.
    ("catalog/definition/foreign_words.py", definition(HEAD + "TIME-OUT: 5\n"), "timeout"),
    ("catalog/definition/foreign_words.py", definition(HEAD + "retries: {attempts: 2}\n"), "retry"),
    ("catalog/definition/structure.py", definition(HEAD + "effect: READ\n"), "read"),
    ("catalog/definition/structure.py", definition(GET % (", method: get", "")), "GET"),
    (
        "catalog/definition/concurrency.py",
        definition(Q + "concurrency: {key: params.Query}\n"),
        "query",
    ),
    (
        "catalog/definition/rules.py",
        definition(
            HEAD + "parameters: [{name: a, type: object, description: x, validation: "
            "{properties: {max_size: integer}, required: [maxSize]}}]\n"
        ),
        "max_size",
    ),
    (
        "catalog/definition/raw_schema.py",
        definition(
            HEAD
            + "parameters: [{name: a, type: string, description: x, schema: {min_Length: 1}}]\n"
        ),
        "minLength",
    ),
    ("missing_attributes.py", of(getattr, ToolEngine(), "excute"), "execute"),
    ("catalog/servers/config_file.py", of(_read_servers, {"s": {"Url": "https://x"}}), "url"),
    ("catalog/servers/config_file.py", of(_read_servers, file='{"MCPServers": {}}'), "mcpServers"),
    ("catalog/definition/permission.py", definition(HEAD + "accepts: ['effect:READ']\n"), "read"),
    ("catalog/definition/permission.py", definition(HEAD + "accepts: ['TOOL:x']\n"), "tool"),
    (
        "catalog/definition/examples.py",
        definition(HEAD + "tests: [{name: a, params: {}, expect_error: time_out}]\n"),
        "timeout",
    ),
    (
        "catalog/definition/group_definition.py",
        definition(GROUP + "tools: [get_page]\n'off': [GetPage]\n"),
        "get_page",
    ),
    (
        "catalog/index.py",
        lambda: ToolIndex(
            [ToolConfigLoader().load_text(HEAD.replace("t\n", "get_page\n"))]
        ).get_or_raise("GetPage"),
        "get_page",
    ),
    ("catalog/lint.py", of(choose_rules, ["l101"], []), "L101"),
    # Entries.
    ("executors/entry_reader.py", definition(GET % (", Headers: {}", "")), "headers"),
    (
        "executors/http/plan_entry.py",
        definition((GET % ("", "")).replace("{query}", "{Query}")),
        "query",
    ),
    (
        "executors/http/auth_entry.py",
        definition(GET % (", auth: {type: BEARER, token: x}", "")),
        "bearer",
    ),
    (
        "executors/http/response_entry.py",
        definition(GET % ("", ", response: {save_to: {root: ., path: '{Query}'}}")),
        "query",
    ),
    ("executors/sql/sql_entry.py", definition(SQL % "sql: 'SELECT :Query'"), "query"),
    ("executors/commands/command_entry.py", definition(RUN % "argv: [ls, '{Query}']"), "query"),
    (
        "executors/commands/command_entry.py",
        definition(RUN % "argv: [ls, '{query}'], CWD: x"),
        "cwd",
    ),
    (
        "executors/files/file_entry.py",
        definition(
            HEAD + "parameters: [{name: path, type: string, required: true, description: x}, "
            "{name: Limit, type: integer, description: x}]\n"
            "entry: {type: builtin, handler: read_file, root: .}\n"
        ),
        "limit",
    ),
    (
        "executors/workflow/workflow_entry.py",
        definition(STEPS % "{tool: x, params: {a: '${params.Query}'}}"),
        "query",
    ),
    (
        "executors/workflow/workflow_entry.py",
        definition(STEPS % "{tool: x, on_error: Continue}"),
        "continue",
    ),
    (
        "executors/python/handler_source.py",
        definition(HEAD + "entry: {type: python, handler: 'textwrap:Shorten'}\n"),
        "shorten",
    ),
    (
        "executors/executor_registry.py",
        lambda: _raise(ExecutorRegistry().missing_cure(_tool_of("SqlQuery"))[1]),
        "sql_query",
    ),
    ("executors/calculator.py", of(calculate, "2 * PI"), "pi"),
    ("executors/arithmetic.py", of(calculate, "SQRT(4)"), "sqrt"),
    # Arguments.
    ("validation/findings.py", findings(Q, {"QUERY": "x"}), "query"),
    (
        "validation/rules.py",
        findings(
            HEAD
            + "parameters: [{name: a, type: string, description: x, enum: [read_all, write]}]\n",
            {"a": "readAl"},
        ),
        "read_all",
    ),
    (
        "validation/declaration.py",
        lambda: ToolParameterValidator().validate(
            structs.replace(TOOL, parameters=[structs.replace(TOOL.parameters[0], type="String")]),
            {},
        ),
        "string",
    ),
    # Options of public functions and classes.
    ("model/checks/bounds.py", of(ConcurrencyConfig, strategy="FIFO"), "fifo"),
    ("model/checks/bounds.py", of(ToolEngineConfig, durability="Buffered"), "buffered"),
    (
        "catalog/folder/bucket_names.py",
        lambda: _raise_text(
            str(limit_warnings(ConcurrencyConfig(bucket_limits={"HTTP": 1}), ToolIndex()))
        ),
        "http",
    ),
    ("model/checks/known_fields.py", of(ToolEngineConfig, tools_dir="x"), "tools_directory"),
    ("model/checks/known_fields.py", of(ConcurrencyConfig, maxConcurrent=1), "max_concurrent"),
    (
        "model/settings/by_name.py",
        of(ConcurrencyConfig, breakers={"http": {"Failures": 1}}),
        "failures",
    ),
    ("config.py", of(ConcurrencyConfig, key_limits={"Limit": 1}), "limit"),
    (
        "model/settings/databases.py",
        of(checked_sources, {"s": {"url": "sqlite:///x", "readOnly": True}}),
        "readonly",
    ),
    ("model/settings/databases.py", of(checked_sources, {"s": "SQLite3:///x"}), "sqlite"),
    ("model/settings/retention.py", of(ToolEngineConfig, retention={"maxAge": 1}), "max_age"),
    ("protocols/registry.py", of(get_protocol, "OPENAI"), "openai"),
    ("protocols/definition_formats.py", lambda: ToolEngine().tool_definitions("OpenAI"), "openai"),
    ("agent/models/registry.py", of(chat_model, "OpenAI:x"), "openai"),
    (
        "events/event_filter.py",
        lambda: ToolEngine().subscribe(print, "Execution-Completed"),
        "execution_completed",
    ),
    # The command line.
    ("cli/failures.py", output("show", "Calculator"), "calculator"),
    ("cli/broken.py", of(_show_broken, "Brokn"), "broken"),
    ("cli/options.py", of(_say_variable, "TOOL_ENGINE_Record"), "TOOL_ENGINE_RECORDS"),
    ("cli/files/new_command.py", output("new", "x", "--kind", "SQL"), "sql_query"),
    ("cli/failures.py", output("list", "--category", "HTTP"), "http"),
    ("cli/failures.py", output("lint", "Calculator"), "calculator"),
    ("cli/failures.py", output("convert", "calculator", "--to", "OpenAI"), "openai"),
    ("cli/failures.py", output("prompt", "-p", "VCP"), "vcp"),
    (
        "cli/calls/call_arguments.py",
        output("call", "calculator", "--Expression", "1"),
        "--expression",
    ),
    ("cli/calls/call_arguments.py", output("call", "calculator", "--time-out", "1"), "--timeout"),
    ("cli/engines.py", output("test", "--app", "tool_engine:Tool_Engin"), "ToolEngine"),
    ("cli/usage.py", output("Validate"), "validate"),
    ("cli/chat/turns.py", of(_asked, "/Usage"), "/usage"),
    ("cli/usage.py", output("list", "--catgory", "http"), "--category"),
    ("cli/settings_file.py", of(_say_of_settings, "Max-Threads = 3"), "max_threads"),
    ("cli/settings_file.py", of(_say_of_settings, "max_concurent = 3"), "max_concurrent"),
    (
        "model/checks/field_types.py",
        of(read_script, {"replies": [{"txt": "hello"}]}),
        "text",
    ),
]


def _tool_of(handler: str) -> Tool:
    entry = {"type": "custom", "handler": handler}
    return ToolConfigLoader().from_mapping({"name": "t", "description": "x", "entry": entry})


def _raise(text: str) -> None:
    raise LookupError(f"did you mean {text!r}?")


@pytest.mark.parametrize(
    ("place", "call", "meant"), SYNC, ids=[f"{place}-{meant}" for place, _, meant in SYNC]
)
def test_the_name_that_was_meant_is_offered(
    place: str, call: Callable[[], Any], meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another case, another mark between words, or an ending: the message asks for the name."""
    try:
        call()
        said = capsys.readouterr().err
    except Exception as error:  # noqa: BLE001 - whatever it raises, its message is what counts
        said = str(error)
    assert "did you mean" in said.lower(), (place, said)
    assert meant in said.lower() or meant in said, (place, said)


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[ToolEngine]:
    """An engine with the tools `get_page` and `pay`, the group `web`, and a file in its folder."""
    (tmp_path / "Notes.txt").write_text("x")
    config = ToolEngineConfig(tools_directory=str(tmp_path), auto_reload=False)
    async with ToolEngine(config) as made:
        for name in ("get_page", "pay"):
            made.register_tool(
                {"name": name, "description": "Does it.", "tags": ["web"], "effect": "read"},
                lambda: {"page_title": 1},
            )
        skill = {"name": "read_it", "desc": "Reads.", "prompt": "Read."}
        made.register_group(
            {"name": "web", "description": "x", "tags": ["web"], "enabled": True, "skills": [skill]}
        )
        parameters = [{"name": "path", "type": "string", "description": "x", "required": True}]
        entry = {"type": "builtin", "handler": "read_file", "root": str(tmp_path)}
        made.register_tool(
            {"name": "read_file", "description": "x", "parameters": parameters, "entry": entry}
        )
        yield made


async def _result(engine: ToolEngine, name: str, params: dict[str, Any]) -> None:
    result = await engine.execute(name, params)
    _raise_text(str(result.error))


def _raise_text(text: str) -> None:
    raise LookupError(text)


async def _skill(engine: ToolEngine) -> None:
    session = ToolSession(engine, "s")
    found = session.own("call_skill")
    assert found is not None
    await found[1].execute(found[0], {"name": "ReadIt"}, None)  # type: ignore[arg-type] # it needs none


async def _session(engine: ToolEngine, name: str, params: dict[str, Any]) -> None:
    result = await ToolSession(engine, "s").execute(name, params)
    _raise_text(str(result.final_text))


class _Shop:
    origin = "mcp:shop"
    executor: Any = None

    async def read_tools(self) -> list[Any]:
        return []

    def follow(self, notify: Any) -> None:
        pass


async def _name_server(_: ToolEngine) -> None:
    """A tool of a file that names a server in another way."""
    with TemporaryDirectory() as folder:
        text = HEAD + "entry: {type: mcp, server: Shop, tool: a}\n"
        await asyncio.to_thread(Path(folder, "t.yaml").write_text, text)
        servers = {"shop": {"command": "false", "disabled": True}}
        async with ToolEngine(ToolEngineConfig(folder, mcp_servers=servers)) as engine:
            raise LookupError(str(engine.load_errors))


async def _start_server(engine: ToolEngine) -> None:
    """What is said of a program with two letters exchanged."""
    with TemporaryDirectory() as folder:
        await asyncio.to_thread(Path(folder, "reader").write_text, "")
        await engine.add_source(MCPSource("one", command=["raeder"], env={"PATH": folder}))
        raise LookupError(str(engine.load_errors))


async def _remove_source(engine: ToolEngine) -> None:
    await engine.add_source(_Shop())
    await engine.remove_source("mcp:shopp")


ASYNC: list[tuple[str, Callable[[ToolEngine], Any], str]] = [
    ("catalog/generations.py", lambda engine: engine.unregister_group("WEB"), "web"),
    ("following.py", _remove_source, "mcp:shop"),
    ("mcp_servers/hub.py", _name_server, "shop"),
    ("executors/mcp/programs.py", _start_server, "reader"),
    ("catalog/index.py", lambda engine: _result(engine, "GetPage", {}), "get_page"),
    (
        "executors/files/file_errors.py",
        lambda engine: _result(engine, "read_file", {"path": "notes.TXT"}),
        "Notes.txt",
    ),
    (
        "executors/result_reading.py",
        lambda _: _raise_text(_suggest_key("pageTitle", {"page_title": 1})),
        "page_title",
    ),
    (
        "executors/workflow/evaluation.py",
        lambda _: _raise_text(_list_keys({"page_title": 1}, "pageTitle")),
        "page_title",
    ),
    (
        "session/toolbox/toolbox.py",
        lambda engine: Toolbox(engine).toggle_group_enabled("WEB"),
        "web",
    ),
    (
        "session/toolbox/toolbox.py",
        lambda engine: Toolbox(engine).set_tool_enabled("GetPage", False),
        "get_page",
    ),
    (
        "sources/tool_view.py",
        lambda engine: _view(combine(engine)).get_or_raise("GetPage"),
        "get_page",
    ),
    ("session/config.py", lambda _: ToolCallConfig.from_dict({"MaxUses": {}}), "max_uses"),
    ("session/variables/store.py", lambda _: _variable("my-plan"), "my_plan"),
    (
        "session/variables/variable_definitions.py",
        lambda engine: _session(engine, "list_vars", {"Search": "x"}),
        "search",
    ),
    (
        "sources/composition.py",
        lambda engine: _raise_text(str(_view(keep(engine, ["GetPage"])).findings)),
        "get_page",
    ),
    ("session/prompt/skills.py", _skill, "read_it"),
    (
        "session/toolbox/toolbox.py",
        lambda engine: _raise_text(
            str(ToolSession(engine, "s", {"tool_toggles": {"GetPage": False}}).findings)
        ),
        "get_page",
    ),
    (
        "interfaces/source.py",
        lambda engine: as_source(
            SimpleNamespace(get=engine.get, list_all=engine.list_all, execute=engine.execute)
        ).get_or_raise("GetPage"),
        "get_page",
    ),
    (
        "sources/combined_tools.py",
        lambda engine: CombinedTools({"a": engine}).get_or_raise("GetPage"),
        "get_page",
    ),
    (
        "integrations/offered_tools.py",
        lambda engine: OfferedTools(engine, "any", None, ["GetPage"]),
        "get_page",
    ),
]


def _view(source: Any) -> Any:
    return source


def _variable(name: str) -> None:
    store = VariableStore()
    store.add(Variable(name="my_plan", value="x"))
    store.get(name)


@pytest.mark.parametrize(
    ("place", "call", "meant"), ASYNC, ids=[f"{place}-{meant}" for place, _, meant in ASYNC]
)
async def test_the_name_that_was_meant_is_offered_by_an_engine(
    engine: ToolEngine, place: str, call: Callable[[ToolEngine], Any], meant: str
) -> None:
    """The same for what needs an engine, a session, or a program that runs."""
    said = ""
    try:
        waits = call(engine)
        if inspect.isawaitable(waits):
            await waits
    except Exception as error:  # noqa: BLE001 - whatever it raises, its message is what counts
        said = str(error)
    asks = "near are" if place == "session/variables/store.py" else "did you mean"
    assert asks in said, (place, said)
    assert meant in said.partition(asks)[2], (place, said)


ELSEWHERE = {
    # tests/mcp_server: over the wire, and as it is made.
    "mcp_server/asking.py",
    "mcp_server/calling.py",
    "mcp_server/offers/completing.py",
    "mcp_server/listing.py",
    "mcp_server/offers/prompts.py",
    "mcp_server/offers/resources.py",
    "mcp_server/server.py",
    # tests/executors/mcp: `the server has no tool 'Add', did you mean 'add'?`
    "executors/mcp/mcp_source.py",
    # tests/server and tests/access: over the wire, and in a token file.
    "server/reading.py",
    "server/tools.py",
    "access/tokens.py",
    # No message: arguments under a misspelled name of a secret are kept out of the records.
    "redaction/tool_secrets.py",
    # tests/agent/models/test_clients.py: needs an SDK; tests/protocols/test_routing.py: a router.
    "agent/models/client.py",
    "protocols/routing.py",
    # tests/executors/workflow: `'calculator' has no parameter 'expresion'`.
    "executors/workflow/link_check.py",
    # tests/testing: `no call of the trace has the bucket`.
    "testing/simulation.py",
    # tests/testing/test_proposal.py: a bucket that no call has.
    "testing/proposal.py",
    # tests/studio/test_history_page.py: links to tools whose names are like the filter's.
    "studio/pages/history_page.py",
    "model/checks/nearness.py",
}
"""Places whose tests are elsewhere, or that tell nothing."""


def test_every_place_has_a_row() -> None:
    """Whoever looks for a near name is listed above."""
    listed = {place for place, _, _ in (*SYNC, *ASYNC)} | ELSEWHERE
    places = {
        str(path.relative_to(PACKAGE))
        for path in _files_with("near")
        if {"find_near", "find_nearest", "suggest_near"} & _called(path)
    }
    assert places - listed == set()


def test_there_is_one_way() -> None:
    """No other module compares names letter by letter."""
    others = {"get_close_matches", "SequenceMatcher"}
    found = {path.name for name in others for path in _files_with(name) if {name} & _called(path)}
    assert found == {"nearness.py"}


def _files_with(text: str) -> list[Path]:
    return [path for path in PACKAGE.rglob("*.py") if text in path.read_text("utf-8")]


def _called(path: Path) -> set[str]:
    calls = [node.func for node in ast.walk(tree(path)) if isinstance(node, ast.Call)]
    names = {func.id for func in calls if isinstance(func, ast.Name)}
    return names | {func.attr for func in calls if isinstance(func, ast.Attribute)}
