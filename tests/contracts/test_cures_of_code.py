"""What an error about handlers, commands, limits or consent says to do is done, and it goes.

The rows are as those of `test_cures_of_errors`, which counts what is tried. `CODE` are mistakes
where a program is written, `CALLS` in the entry of a tool or in what a model sends, `SLOTS` in how
much runs at once, `CASES` in the tests of a tool; what needs more steps has a test of its own.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from rich.console import Console

from tests.approval.test_book import CHANGED, TOOL, YES, Clock
from tests.contracts.test_cures_of_errors import HEAD, names_cure
from tests.testing.checked import cases_of, problems
from tests.testing.test_recorded_commands import SHELL
from tests.testing.test_scratch_files import tool as file_tool
from tests.testing.test_scratch_sources import SCRIPT
from tests.testing.test_scratch_sources import TOOL as STOCK
from tool_engine import (
    BreakerPolicy,
    ConcurrencyConfig,
    ConsoleApprover,
    ImageContent,
    ResourceContent,
    ResourceLink,
    ToolCallConfig,
    ToolConcurrencyController,
    ToolEngine,
    ToolEngineConfig,
    ToolEngineError,
    ToolExecutionContext,
    ToolSession,
    chat_model,
)
from tool_engine.admission.breaker import CircuitBreaker
from tool_engine.admission.bridge import ControllerBridge
from tool_engine.approval.book import ApprovalBook
from tool_engine.model.json.result_path import read_path
from tool_engine.model.settings.postgres_url import connect_arguments
from tool_engine.testing import parse_trace, propose_limits, run, simulate
from tool_engine.testing.arguments import ArgumentMaker

BOUND = 30.0
Q = {"name": "q", "type": "string", "description": "What", "required": True}
OTHER = {**HEAD, "name": "other"}
FIVE: Any = 5
LOOSE = {**Q, "required": False}


async def bridged() -> ControllerBridge:
    """A bridge to a controller of the loop that runs."""
    return ToolConcurrencyController().bridge()


def registered(handler: Callable[..., Any], *parameters: dict[str, Any]) -> ToolEngine:
    """An engine that took a handler with these parameters."""
    engine = ToolEngine()
    engine.register_tool({**HEAD, "effect": "read", "parameters": list(parameters)}, handler)
    return engine


def open_tool(is_open: bool) -> ToolEngine:
    """An engine that took a function for a schema that takes other arguments, or does not."""
    engine = ToolEngine()
    schema = {"type": "object", "additionalProperties": is_open}
    engine.register_tool({**HEAD, "effect": "read", "parameters": schema}, lambda: 1)
    return engine


def with_context(context: ToolExecutionContext) -> None:
    """Takes the context of its call."""


def line(**fields: Any) -> bytes:
    """One line of a trace."""
    whole = {"call_id": "c", "tool_name": "t", "enqueued_at": 0, "started_at": 0, "ended_at": 1}
    return json.dumps({**whole, **fields}).encode()


def traced(*lines: bytes) -> Any:
    return parse_trace(lines, "trace.jsonl")


def many(count: int) -> Any:
    return traced(*(line(bucket="http") for _ in range(count)))


def named(name: str, handler: str) -> dict[str, Any]:
    return {**HEAD, "name": name, "entry": {"type": "custom", "handler": handler}}


def register(*tools: Any) -> object:
    return ToolEngine().register_tools(tools)


def recorded_at(time: str) -> Any:
    """A trace of a record as it is exported."""
    return traced(json.dumps({"tool_name": "t", "created_at": time, "execution_time": 1}).encode())


def arguments_of(*known: dict[str, Any]) -> object:
    """Made for a text of a form that nobody can guess."""
    texts = {"q": {"type": "string", "format": "email"}}
    schema = {"type": "object", "properties": texts, "required": ["q"]}
    return ArgumentMaker(schema, Random(1), known).arguments()  # noqa: S311 - no secret


def started(at: float) -> None:
    """Starts a call on a breaker that opened at 0, for 10 s."""
    breaker = CircuitBreaker(BreakerPolicy(failures=1, reset_after=10.0))
    breaker.end(breaker.start(0.0), outcome=False, now=0.0)
    breaker.start(at)


def sources(url: str) -> ToolEngineConfig:
    return ToolEngineConfig(sources={"shop": url})


def limited(rate: str) -> ConcurrencyConfig:
    return ConcurrencyConfig(bucket_rates={"web": rate})  # type: ignore[dict-item]


def derived(tools: Any) -> ToolSession:
    return ToolSession(registered(lambda q: q, Q), "s").derive(tools=tools)


MAKEFILE = Path(__file__).parents[2] / "Makefile"
DATES = {f"{each}_at": "2026-01-01T00:00:00Z" for each in ("enqueued", "started", "ended")}
LOCAL = {key: value.rstrip("Z") for key, value in DATES.items()}
CODE: list[tuple[str, Callable[[], object], Callable[[], object]]] = [
    ("executors/handler.py: rename the tool's parameter",
     lambda: registered(with_context, {**Q, "name": "context"}), lambda: registered(with_context)),
    ("session/config.py: write a pattern such as write_* in place of many names",
     lambda: ToolCallConfig.from_dict({"rules": {f"write_{n}": "deny" for n in range(1_001)}}),
     lambda: ToolCallConfig.from_dict({"rules": {"write_*": "deny"}})),
    (("executors/handler.py: write additionalProperties: false, or let the function take "
      "**others"), lambda: open_tool(True), lambda: open_tool(False)),
    ("executors/handler.py: return the whole value instead",
     lambda: registered(lambda q: (yield q), Q), lambda: registered(lambda q: q, Q)),
    ("executors/handler.py: remove the '/' from its signature",
     lambda: registered(lambda q, /: q, Q), lambda: registered(lambda q: q, Q)),
    ("executors/handler.py: give both the same names",
     lambda: registered(lambda q: q, {**Q, "name": "p"}), lambda: registered(lambda q: q, Q)),
    (("executors/handler.py: add it to parameters, give it a default in the handler, or name it "
      "context if it is the ToolExecutionContext"),
     lambda: registered(lambda q, p: q + p, Q),
     lambda: (registered(lambda q: q, Q), registered(lambda q, p="x": q + p, Q),
              registered(lambda q, context: q, Q))),
    (("executors/handler.py: make it required, or give it a default in the tool or in the "
      "handler"), lambda: registered(lambda q: q, LOOSE),
     lambda: (registered(lambda q: q, Q), registered(lambda q="x": q, LOOSE),
              registered(lambda q: q, {**LOOSE, "default": "x"}))),
    ("model/content/pieces.py: give one of them, or make a ResourceLink of it",
     lambda: ResourceContent("a"),
     lambda: (ResourceContent("a", text="x"), ResourceContent("a", data=b"x"),
              ResourceLink("a", "a"))),
    ("model/content/pieces.py: make it smaller, or return a ResourceLink to it",
     lambda: ImageContent.from_file("/dev/zero", "image/png"),
     lambda: (ImageContent(b"x", "image/png"), ResourceLink("file:///dev/zero", "zero"))),
    ("model/content/pieces.py: give its mime_type, such as image/png",
     lambda: ImageContent.from_file(MAKEFILE), lambda: ImageContent.from_file(MAKEFILE, "image/a")),
    ("admission/breaker.py: start one when delay() is 0", lambda: started(9), lambda: started(10)),
    ("model/settings/databases.py: the engine decides how the file is opened",
     lambda: sources("sqlite:////a.db?mode=rwc"), lambda: sources("sqlite:////a.db")),
    ("model/settings/concurrency.py: write it as 10/s, 100/min, 1000/h or 5/2s",
     lambda: limited("10 per s"), lambda: [limited(rate) for rate in ("10/s", "100/min", "5/2s")]),
    ("model/settings/postgres_url.py: known are …",
     lambda: connect_arguments("postgresql://h/db?ssl=require"),
     lambda: connect_arguments("postgresql://h/db?sslmode=require")),
    (("model/json/result_path.py: write names with dots between them and positions in brackets, "
       'such as items[3].name or "first name"'), lambda: read_path("items.3..name"),
     lambda: (read_path("items[3].name"), read_path('"first name"'))),
    ("session/parts.py: write […]", lambda: derived("t"), lambda: derived(["t"])),
    ("agent/models/registry.py: got ……", lambda: chat_model("qwen"),
     lambda: chat_model("openai:qwen", api_key="k", base_url="http://127.0.0.1:9")),
    ("approval/console.py: write sys.stdin, or leave it out",
     lambda: ConsoleApprover(stdin=FIVE), lambda: ConsoleApprover(stdin=sys.stdin)),
    ("model/checks/setting_kinds.py: write …",
     lambda: ConsoleApprover(FIVE), lambda: ConsoleApprover(Console())),
    ("admission/bridge.py: write controller.bridge() of the one whose slots are wanted",
     lambda: ControllerBridge(FIVE, FIVE), lambda: asyncio.run(bridged())),
    ("admission/bridge.py: write asyncio.get_running_loop() where the controller lives",
     lambda: ControllerBridge(ToolConcurrencyController(), FIVE), lambda: asyncio.run(bridged())),
    (("agent/models/openai_responses.py: leave it out, and keep the conversation with "
      "AgentLoop.to_dict()"),
     lambda: chat_model("openai_responses:qwen", api_key="k", previous_response_id="r"),
     lambda: chat_model("openai_responses:qwen", api_key="k")),
    ("testing/arguments.py: give the definition an example: …",
     arguments_of, lambda: arguments_of({"q": "a@b.example"})),
    ("testing/simulation.py: nothing can be simulated",
     lambda: simulate([]), lambda: simulate(traced(line()))),
    ("testing/simulation.py: record calls while the limits let some of them through",
     lambda: simulate(traced(line(started_at=None))),
     lambda: simulate(traced(line(started_at=None), line()))),
    ("testing/proposal.py: record more calls, or take more of them",
     lambda: propose_limits(many(49)), lambda: propose_limits(many(50))),
    ("registering.py: rename or remove one of the two",
     lambda: register(HEAD, HEAD), lambda: [register(HEAD, OTHER), register(HEAD)]),
    ("registering.py: give one of them another entry.handler",
     lambda: register((named("a", "h"), lambda: 1), (named("b", "h"), lambda: 2)),
     lambda: register((named("a", "h"), lambda: 1), (named("b", "g"), lambda: 2))),
    (("testing/trace.py: record some with `tool-engine batch FILE --trace OUT.jsonl`, or write "
      "one per line: …"), traced, lambda: traced(line())),
    ("testing/trace.py: write all times in one form",
     lambda: traced(line(), line(**DATES)), lambda: traced(line(**DATES), line(**DATES))),
    ("testing/trace.py: write …", lambda: traced(b"{}"), lambda: traced(line())),
    ("testing/trace.py: write …+00:00", lambda: recorded_at("2026-01-01 00:00:00"),
     lambda: recorded_at("2026-01-01 00:00:00+00:00")),
    ("testing/trace.py: write …Z or …+02:00",
     lambda: traced(line(**LOCAL)), lambda: traced(line(**DATES))),
]  # fmt: skip
MOST = 131_071
MORE = 16 * 1024 * 1024
HANDLERS = f"""
import os
def awaitable(q): return later(q)
async def later(q): return q
class Class:
    def method(self, q): return q
thing = Class()
def generator(q): yield q
def huge(q): return 'x' * {MORE}
async def calling(q, context): return (await context.call('echo', {{'message': q}})).output
def loud(q):
    for number in range(3, 256):
        try: os.write(number, b'x' * 100)
        except OSError: pass
    return q
def said(q): os.write(1, b'x'); return q
"""


def command(*argv: str, **config: Any) -> dict[str, Any]:
    """The entry of a command."""
    return {"type": "builtin", "handler": "run_command", "argv": [*argv], "config": config}


def function(name: str, *, is_apart: bool = False, module: str = "hands_of_cures") -> Any:
    """The entry of a handler in the module."""
    config: dict[str, Any] = {"isolation": "process", "workers": 1} if is_apart else {}
    return {"type": "custom", "handler": f"{module}:{name}", "config": config}


ECHO = command("echo", "{q}")
ARGUMENT, PYTHON = "executors/commands/argument.py: ", "executors/python/"
CALLS: list[tuple[str, Any, str, Any, str]] = [
    (ARGUMENT + "remove it", command("echo", "a\0{q}"), "", command("echo", "a{q}"), ""),
    (ARGUMENT + ("every user of the machine can see a command's arguments: pass it in "
                 "entry.config.env"),
     command("echo", "${env:CURE}{q}"), "", command("echo", "{q}", env={"KEY": "${env:CURE}"}), ""),
    (ARGUMENT + "give a value that does not begin with a dash (./-x for a file -x)",
     ECHO, "-x", ECHO, "./-x"),
    (ARGUMENT + "leave it out", ECHO, "a\0b", ECHO, "ab"),
    (ARGUMENT + "the most is …", ECHO, "x" * (MOST + 1), ECHO, "x" * MOST),
    (ARGUMENT + "only a plain text may stand before a list that is spread",
     command("echo", "--x={q}{items...}"), "", command("echo", "{q}", "--x={items...}"), ""),
    ("executors/commands/command_outcome.py: ask for less",
     command("head", "-c", "{q}", "/dev/zero"),
     str(2**30), command("head", "-c", "{q}", "/dev/zero"), "10"),
    ("executors/commands/program.py: install it, or write its absolute path in entry.argv[0]",
     command("program", "{q}"), "", command("PLACE/program", "{q}"), ""),
    ("executors/commands/program.py: correct entry.argv[0]",
     command("PLACE/progam", "{q}"), "", command("PLACE/program", "{q}"), ""),
    ("executors/handler.py: declare it with 'async def'",
     function("awaitable"), "", function("later"), ""),
    (PYTHON + "handler_source.py: name a function, or a method of an object: …:object.method",
     function("Class"), "", function("thing.method"), ""),
    (PYTHON + "handlers.py: return the whole value instead",
     function("generator", is_apart=True), "", function("later", is_apart=True), ""),
    (PYTHON + ("guest.py: the most is …: return a part of it, or write it where its readers find "
               "it, and return the place"),
     function("huge", is_apart=True), "", function("later", is_apart=True), ""),
    (PYTHON + "reporting.py: return what is to be done, or leave the isolation out",
     function("calling", is_apart=True), "", function("calling"), ""),
    (PYTHON + ("worker.py: send less, or write it where the tool can read it, and send the "
               "place"), function("later", is_apart=True), "x" * MORE,
     function("later", is_apart=True), "x"),
    (PYTHON + "worker.py: write to stdout or stderr, not to other open files",
     function("loud", is_apart=True), "", function("said", is_apart=True), ""),
    ("calls/planner.py: register it with engine.register_executor(…, ...) or correct entry.handler",
     {"type": "custom", "handler": "ech"}, "", {"type": "builtin", "handler": "echo"}, ""),
]  # fmt: skip


REFUSED = "admission/refusal.py: "
HOUR, SECOND = {"bucket_rates": {"web": "1/h"}}, {"bucket_rates": {"web": "1/s"}}
WRITES = file_tool("write_file", "").replace("${env:WORKSPACE_OF_TEST}", "../real")
REJECT = {"strategy": "reject"}
ONE: dict[str, Any] = {"max_concurrent": 1}
SLOTS: list[tuple[str, dict[str, Any], list[dict[str, Any]]]] = [
    (REFUSED + "call less often or raise the rate", HOUR, [SECOND]),
    (REFUSED + "call less often, or use the strategy 'fifo' to wait",
     HOUR | REJECT, [HOUR | {"queue_timeout": None}]),
    (REFUSED + "raise queue_timeout or the limit that is full, or make fewer calls at once",
     ONE | {"queue_timeout": 5.0}, [ONE | {"queue_timeout": 20.0}, {"max_concurrent": 2}]),
    (REFUSED + "try again later, raise queue_size, or raise the limits",
     ONE | {"queue_size": 0}, [ONE | {"queue_size": 1}, {"max_concurrent": 2, "queue_size": 0}]),
    (REFUSED + "try again later, raise …, or raise the limits",
     ONE | {"bucket_queue_sizes": {"web": 0}},
     [ONE | {"bucket_queue_sizes": {"web": 1}},
      {"max_concurrent": 2, "bucket_queue_sizes": {"web": 0}}]),
    (REFUSED + "try again later, raise the limit, or use the strategy 'fifo' to wait",
     ONE | REJECT, [ONE, {"max_concurrent": 2} | REJECT]),
    (REFUSED + "lower the weight or raise the limit",
     ONE | {"weight": 2}, [ONE, {"max_concurrent": 2, "weight": 2}]),
    (REFUSED + "let the tools react to cancellation, or raise max_zombies",
     {"max_zombies": 1}, [{"max_zombies": 2}]),
]  # fmt: skip
CASES = [
    ("testing/recorded_commands.py: record what the script would return: command: {stdout: …}",
     SHELL, "params: {script: ls}", "params: {script: ls}, command: {stdout: a}"),
    (("testing/scratch.py: give the test a folder of its own: files: {}, or the files that it is "
      "to have"), WRITES, "params: {path: b, content: y}",
     "params: {path: b, content: y}, files: {}"),
    ("testing/scratch_sources.py: add it to the test's sources", STOCK,
     "params: {item: lamp}, sources: {show: ''}",
     f"params: {{item: lamp}}, sources: {{shop: {json.dumps(SCRIPT)}}}"),
]  # fmt: skip
ALONE = (
    "admission/bridge.py: call bridge.slot() again for another slot",
    "admission/bridge.py: use `async with`",
    "approval/book.py: call it again to be asked again",
    "approval/book.py: call the tool again",
    "approval/book.py: give it to the approver that was asked",
    "approval/book.py: the request stays open",
)
TRIED = {*ALONE, *(row[0] for row in (*CODE, *CALLS, *SLOTS, *CASES))}


def check(row: str, error: object) -> None:
    """The row is one that is counted, and the message ends as it says."""
    assert row in ALONE
    assert names_cure(row, str(error)), error


@pytest.mark.parametrize(("row", "broken", "healed"), CODE, ids=[row[0] for row in CODE])
def test_in_code(row: str, broken: Callable[[], object], healed: Callable[[], object]) -> None:
    """What the message says to write is taken."""
    with pytest.raises((ValueError, RuntimeError, ToolEngineError)) as raised:
        broken()
    assert names_cure(row, str(raised.value)), raised.value
    healed()


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a program, and with handlers on Python's path."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("CURE", "a-secret-of-this-test")
    (tmp_path / "hands_of_cures.py").write_text(HANDLERS)
    (tmp_path / "program").write_text("#!/bin/sh\necho yes\n")
    (tmp_path / "program").chmod(0o755)
    (tmp_path / "tools").mkdir()
    yield tmp_path
    sys.modules.pop("hands_of_cures", None)


async def outcome(place: Path, entry: Any, q: str, **settings: Any) -> str:
    """What the engine has against a tool or its call; empty: nothing."""
    parameters = [
        {"name": "q", "type": "string", "description": "What", "default": ""},
        {"name": "items", "type": "array", "description": "More", "default": []},
    ]
    whole = {**HEAD, "effect": "read", "parameters": parameters[: 1 + ("items" in str(entry))]}
    text = json.dumps({**whole, "entry": entry}).replace("PLACE", str(place))
    (place / "tools/t.yaml").write_text(text)
    echo = {**HEAD, "name": "echo", "entry": {"type": "builtin", "handler": "echo"}}
    (place / "tools/echo.yaml").write_text(
        json.dumps({**echo, "parameters": [{**Q, "name": "message"}]})
    )
    config = ToolEngineConfig(str(place / "tools"), auto_reload=False, **settings)
    async with asyncio.timeout(BOUND), ToolEngine(config) as engine:
        if engine.load_errors:
            return str(engine.load_errors)
        result = await engine.execute("t", {"q": q})
        return "" if result.is_success else str(result.error)


@pytest.mark.parametrize(("row", "broken", "wrong", "healed", "right"), CALLS,
                         ids=[row[0] for row in CALLS])  # fmt: skip
async def test_in_calls(
    place: Path, row: str, broken: Any, wrong: str, healed: Any, right: str
) -> None:
    """A tool that is defined or called as its message says runs."""
    message = await outcome(place, broken, wrong)
    assert names_cure(row, message.replace("\\'", "'")), message[:500]
    assert await outcome(place, healed, right) == ""


@pytest.mark.parametrize(("row", "broken", "healed"), SLOTS, ids=[row[0] for row in SLOTS])
def test_slots(row: str, broken: dict[str, Any], healed: list[dict[str, Any]]) -> None:
    """Of two calls, the first of which lasts for 10 s, both get a slot."""

    async def two_calls(weight: int = 1, **limits: Any) -> None:
        controller = ToolConcurrencyController(
            ConcurrencyConfig(**limits), clock=asyncio.get_running_loop().time
        )
        first = await controller.acquire("web")
        if "max_zombies" in limits:
            controller.mark_overdue(first)
        asyncio.get_running_loop().call_later(10.0, controller.release, first)
        controller.release(await controller.acquire("web", weight=weight))

    with pytest.raises(ToolEngineError) as raised:
        run(two_calls(**broken))
    assert names_cure(row, str(raised.value)), raised.value
    for limits in healed:
        run(two_calls(**limits))


@pytest.mark.parametrize(("row", "tool", "broken", "healed"), CASES, ids=[row[0] for row in CASES])
async def test_cases(tmp_path: Path, row: str, tool: str, broken: str, healed: str) -> None:
    """A test of a tool that is written as its message says is passed."""
    (tmp_path / "real").mkdir()
    for case, is_right in ((broken, False), (healed, True)):
        text = f"{tool}  - {{{case}, expect_part: {{}}}}\n"
        found = problems(await cases_of(tmp_path / "tools", text))
        assert is_right is (found == []), found
        assert is_right or names_cure(row, found[0]), found


async def test_bridge() -> None:
    """On a loop a claim is for one `async with`."""
    bridge = ToolConcurrencyController().bridge()
    claim = bridge.slot()
    with pytest.raises(ToolEngineError) as raised, bridge.slot():
        pass
    check("admission/bridge.py: use `async with`", raised.value)
    async with claim:
        pass
    with pytest.raises(ToolEngineError) as raised:
        await claim.__aenter__()
    check("admission/bridge.py: call bridge.slot() again for another slot", raised.value)
    async with bridge.slot():
        pass


async def test_book() -> None:
    """An answer that is not taken is asked for again, or given where it is taken."""
    clock = Clock()
    book = ApprovalBook("s", 60.0, clock=clock)
    for cure, tool, seconds in (
        ("call the tool again", TOOL, 60.0),
        ("call it again to be asked again", CHANGED, 0.0),
        ("the request stays open", None, 0.0),
        ("give it to the approver that was asked", TOOL, 0.0),
    ):
        is_waiting = "approver" in cure
        token = book.ask(TOOL, {}, is_waiting=is_waiting).token
        clock.now += seconds
        with pytest.raises(ToolEngineError) as raised:
            await book.answer(token, YES, tool)
        check(f"approval/book.py: {cure}", raised.value)
        now = tool or TOOL
        if is_waiting:
            assert book.settle(token, YES, now).token == token
        else:
            token = token if tool is None else book.ask(now, {}).token
            assert (await book.answer(token, YES, now)).token == token
