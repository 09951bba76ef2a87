"""What users hold is copied and pickled, or refuses by name and says what to do instead.

`HELD` makes one of each public class that no other value can stand for; values, enums and errors
are made from their fields. `test_every_public_class_is_tried` finds a new class without a row.
"""

from __future__ import annotations

import copy
import inspect
import pickle
import types
import typing
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from enum import Enum
from typing import Any, cast

import msgspec
import pytest

import tool_engine
from tool_engine import (
    AgentLoop,
    AudioContent,
    CallbackApprover,
    ClusterConfig,
    ConcurrencyConfig,
    ConsoleApprover,
    DefinitionProblem,
    ImageContent,
    LiveObjectError,
    MCPSource,
    Presentation,
    QueueApprover,
    RecordedModel,
    ResourceContent,
    ResourceLink,
    TaskHandle,
    TaskState,
    TextContent,
    Tool,
    ToolCategory,
    ToolConcurrencyController,
    ToolEngine,
    ToolEngineConfig,
    ToolEngineError,
    ToolExecutionContext,
    ToolGroup,
    ToolKnowledgeStore,
    ToolSession,
    ToolSubAgent,
    Variable,
    VariableKind,
    VariableStore,
    errors,
    get_protocol,
)
from tool_engine.events.memory import MemoryEventStorage
from tool_engine.knowledge.memory_tasks import MemoryTaskStorage
from tool_engine.knowledge.sql.sql_events import SQLEventStorage
from tool_engine.knowledge.sql.storage import SQLRecordStorage
from tool_engine.model.task import KeptTask


def pickled(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))  # noqa: S301 - what was written in the same line


WAYS: dict[str, Callable[[Any], Any]] = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": pickled,
}
PUBLIC = {name: getattr(tool_engine, name) for name in tool_engine.__all__}
CLASSES = {
    name: value
    for name, value in PUBLIC.items()
    if inspect.isclass(value) and not getattr(value, "_is_protocol", False)
}
TOOL = Tool("echo", "echo", "1.0.0", "Says it.", ToolCategory.CUSTOM, [], [], {})
SCRIPT = {"replies": [{"text": "Yes."}]}


def engine() -> ToolEngine:
    made = ToolEngine(ToolEngineConfig(tools_directory="nowhere"))
    made.register_tool(TOOL, echo)
    return made


async def echo() -> str:
    return "hi"


def session() -> ToolSession:
    return ToolSession(engine(), "s")


def task_handle() -> TaskHandle:
    now = datetime(2026, 1, 2, tzinfo=UTC)
    state = TaskState(id="t", tool_name="echo", created_at=now, expires_at=now)
    kept = KeptTask(state=state, params={}, context=None, priority=5, definition_hash="", ttl=1.0)
    return TaskHandle(cast("Any", engine().tasks), kept)


LIVE: dict[str, Callable[[], Any]] = {
    "ToolEngine": engine,
    "ToolSession": session,
    "ToolConcurrencyController": lambda: ToolConcurrencyController(ConcurrencyConfig()),
    "ToolSubAgent": lambda: ToolSubAgent("a", engine()),
    "QueueApprover": QueueApprover,
    "AgentLoop": lambda: AgentLoop(session(), RecordedModel(SCRIPT)),
    "ControllerBridge": lambda: ToolConcurrencyController(ConcurrencyConfig()).bridge(),
    "Toolbox": lambda: session().toolbox,
    "EngineApprovals": lambda: engine().approvals,
    "EngineTasks": lambda: engine().tasks,
    "TaskHandle": task_handle,
    "MCPSource": lambda: MCPSource("notes", command=["notes"]),
    "MemoryTaskStorage": MemoryTaskStorage,
    "SQLTaskStorage": lambda: SQLRecordStorage("sqlite:///never-opened.db").tasks,
    "Subscription": lambda: engine().subscribe(print),
    "EventStream": lambda: engine().events(),
    "SQLRecordStorage": lambda: SQLRecordStorage("sqlite:///never-opened.db"),
    "SQLSessionStorage": lambda: SQLRecordStorage("sqlite:///never-opened.db").sessions,
    "SQLApprovalStorage": lambda: SQLRecordStorage("sqlite:///never-opened.db").approvals,
    "MemoryEventStorage": MemoryEventStorage,
    "SQLEventStorage": lambda: SQLEventStorage("sqlite:///never-opened.db"),
    **{
        type(get_protocol(name).decoder()).__name__: get_protocol(name).decoder
        for name in ("openai", "openai_responses", "anthropic", "gemini", "vcp", "function_call")
    },
}
"""They refuse. Looked at: what shares tasks, buffers or connections with the one it was made of."""
HELD: dict[str, Callable[[], Any]] = {
    "AudioContent": lambda: AudioContent(b"x", "audio/wav"),
    "CallbackApprover": lambda: CallbackApprover(is_allowed),
    "ConsoleApprover": ConsoleApprover,
    "Generation": lambda: engine().generations()[-1],
    "ImageContent": lambda: ImageContent(b"x", "image/png"),
    "Presentation": Presentation,
    "RecordedModel": lambda: RecordedModel(SCRIPT),
    "ResourceContent": lambda: ResourceContent("a", text="x"),
    "ResourceLink": lambda: ResourceLink("a", "x"),
    "TextContent": lambda: TextContent("x"),
    **{
        name: kind
        for name, kind in CLASSES.items()
        if not issubclass(kind, Enum | Exception | msgspec.Struct)
        and name not in LIVE
        and all(
            each.default is not each.empty for each in inspect.signature(kind).parameters.values()
        )
    },
}
"""There is no sample of them."""


def is_allowed(request: Any) -> bool:
    return bool(request)


SAMPLES: dict[Any, Any] = {
    Any: {"a": [1]},
    int: 2,
    float: 2.0,
    str: "text",
    Tool: TOOL,
    DefinitionProblem: DefinitionProblem("is wrong", "a.yaml", 3, 5),
    datetime: datetime(2026, 1, 2, tzinfo=UTC),
}


def sample(kind: Any) -> Any:
    """A value of a type; of a struct, by its fields that must be given."""
    while typing.get_origin(kind) in (typing.Union, types.UnionType, typing.Annotated):
        kind = typing.get_args(kind)[0]
    kind = typing.get_origin(kind) or kind
    if kind in SAMPLES:
        return SAMPLES[kind]
    if kind is ClusterConfig:
        return ClusterConfig(url="postgresql://host/coordination")
    if issubclass(kind, msgspec.Struct):
        hints = typing.get_type_hints(kind, include_extras=True)
        needed = [each for each in msgspec.structs.fields(kind) if each.required]
        return kind(**{each.name: sample(hints[each.name]) for each in needed})
    return next(iter(kind)) if issubclass(kind, Enum) else kind()


def failure(kind: type[ToolEngineError]) -> ToolEngineError:
    if issubclass(kind, errors.DefinitionError):
        return kind(DefinitionProblem("is wrong", "a.yaml", 3, 5))
    if kind is errors.EventsExpiredError:
        return errors.EventsExpiredError(1, 5)
    error = kind("no")
    if isinstance(error, errors.AdmissionError):
        error.retry_after = 1.5
    return error


def make(name: str) -> Any:
    kind = CLASSES[name]
    if name in HELD:
        return HELD[name]()
    return failure(kind) if issubclass(kind, ToolEngineError) else sample(kind)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", sorted(CLASSES.keys() - LIVE.keys()))
async def test_each_value(name: str, way: str) -> None:
    """A copy is of the same class and has the same content."""
    value = make(name)
    copied = WAYS[way](value)
    assert type(copied) is type(value)
    if isinstance(value, Exception):
        assert (copied.args, vars(copied), str(copied)) == (value.args, vars(value), str(value))
    elif name not in HELD:
        assert copied == value


def containers(value: Any) -> dict[str, Any]:
    """What an object, or a part of it with a state of its own, keeps in changeable containers.

    A protocol is no such part: it goes on knowing the tools that a model was told of.
    """
    found: dict[str, Any] = {}
    waiting = [("", value)]
    while waiting:
        path, each = waiting.pop()
        if isinstance(each, dict | list | set | deque):
            found[path] = each
        elif type(each).__module__.startswith(OURS) and hasattr(each, "__dict__"):
            waiting += [(f"{path}.{key}", part) for key, part in vars(each).items()]
    return found


@pytest.mark.parametrize("name", sorted(HELD))
async def test_a_copy_has_a_state_of_its_own(name: str) -> None:
    """What is done to a copy is done to no other: nothing that changes is in both.

    Looked at: all that is no value, of the public names; what has locks and tasks is among `LIVE`.
    """
    value = HELD[name]()
    if isinstance(value, msgspec.Struct | Enum):
        return  # a value, of which no method changes anything
    before, after = containers(value), containers(copy.copy(value))
    assert [path for path in before if before[path] is after[path] and path not in NEWLY_MADE] == []


OURS = ("tool_engine.knowledge.", "tool_engine.session.", "tool_engine.approval.")
NEWLY_MADE = {".load_errors", ".groups"}
"""Each load makes new ones."""


async def test_a_copy_of_variables() -> None:
    """It holds the same, in the same order, and counts for itself."""
    kept = VariableStore(capacity=3, max_chars=100)
    kept.add(Variable(name="r", value="rule", kind=VariableKind.RULE))
    for name in "abcd":
        kept.add(Variable(name=name, value=name * 5))
    kept.get("b")
    made = copy.copy(kept)
    assert made.to_dict() == kept.to_dict()
    assert [each.name for each in made] == ["r", "c", "d", "b"]
    made.add(Variable(name="e", value="e" * 99))
    assert ([each.name for each in made], made.chars) == (["r", "e"], 99)
    assert ([each.name for each in kept], kept.chars) == (["r", "c", "d", "b"], 15)


async def test_a_copy_of_records() -> None:
    """It has the records of its time."""
    made = engine()
    await made.execute("echo")
    store = copy.copy(made.store)
    await made.execute("echo")
    assert len(await store.query_call_records()) == 1
    assert len(await made.query_call_records()) == 2
    with pytest.raises(LiveObjectError):
        copy.copy(ToolKnowledgeStore(SQLRecordStorage("sqlite:///never-opened.db")))
    await made.close()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", LIVE)
async def test_each_live_object(name: str, way: str) -> None:
    """What tasks, threads and connections belong to is there once, in whatever it stands."""
    value = LIVE[name]()
    for holder in (value, {"deep": [value]}):
        if way == "copy" and holder is not value:
            continue
        with pytest.raises(
            LiveObjectError, match=f"a {name} cannot be .*; (pass|keep|make|open|take) "
        ):
            WAYS[way](holder)


@pytest.mark.parametrize("way", WAYS)
async def test_a_slot(way: str) -> None:
    """A slot is there once: a copy would give it back a second time."""
    async with ToolConcurrencyController(ConcurrencyConfig()).slot() as slot:
        with pytest.raises(LiveObjectError, match="pass it on as it is"):
            WAYS[way](slot)


def test_every_public_class_is_tried() -> None:
    """A class that is neither a value nor an error has a row."""
    plain = {
        name
        for name, kind in CLASSES.items()
        if not issubclass(kind, Enum | Exception | msgspec.Struct | tuple)
    }
    assert plain - LIVE.keys() - HELD.keys() == set()


def test_errors_of_other_signatures() -> None:
    """An error is pickled whatever its class is called with, as users' own are."""
    copied = pickled(OwnError(7, reason="late"))
    assert (str(copied), copied.number) == ("7: late", 7)


class OwnError(ToolEngineError):
    """What a user may derive."""

    def __init__(self, number: int, *, reason: str) -> None:
        super().__init__(f"{number}: {reason}")
        self.number = number


@pytest.fixture
def bound() -> dict[str, Any]:
    """What the handler of `try_out` made of its context."""
    return {}


async def run(bound: dict[str, Any], use: Any, way: str, *, in_session: bool) -> Any:
    """A tool copies its context, and calls another tool with what it got."""
    made = engine()

    async def try_out(context: ToolExecutionContext) -> dict[str, Any]:
        context.variables["own"] = ["first"]
        copied = bound["copied"] = WAYS[way](context)
        bound["context"] = context
        copied.variables["own"].append("second")
        return dict((await use(copied)).output)

    made.register_tool({**DEFINITION, "name": "try_out"}, try_out)
    async with made:
        if in_session:
            return await ToolSession(made, "s").execute("try_out", {})
        return await made.execute("try_out", {}, ToolExecutionContext(caller_id="ada"))


DEFINITION = {
    "description": "Tries it.",
    "effect": "read",
    "entry": {"type": "custom", "handler": "try_out"},
}


def use(context: ToolExecutionContext) -> Any:
    return context.call("echo")


@pytest.mark.parametrize("in_session", [False, True])
@pytest.mark.parametrize(("way", "seen"), [("copy", ["first", "second"]), ("deepcopy", ["first"])])
async def test_a_copy_of_a_context(
    bound: dict[str, Any], way: str, seen: list[str], in_session: bool
) -> None:
    """It is bound to the same call, within the same conversation; a deep one has its variables."""
    result = await run(bound, use, way, in_session=in_session)
    assert result.is_success, result.error
    context, copied = bound["context"], bound["copied"]
    assert context.variables["own"] == seen
    assert copied.bound_call is context.bound_call is not None
    assert (copied.scope, copied.deadline) == (context.scope, context.deadline)


async def test_a_pickled_context(bound: dict[str, Any]) -> None:
    """It has the data of the call and is bound to it no more, nor to its deadline."""
    result = await run(bound, use, "pickle", in_session=False)
    assert "not bound to a running call" in result.error
    context, copied = bound["context"], bound["copied"]
    assert copied.to_wire() == {**context.to_wire(), "variables": {"own": ["first", "second"]}}
    assert (copied.bound_call, copied.deadline) == (None, None)
    assert context.deadline is not None


async def test_a_pickled_context_of_a_conversation(bound: dict[str, Any]) -> None:
    """What the conversation forbids does not get lost on the way: the cure gives it up by name."""
    result = await run(bound, use, "pickle", in_session=True)
    assert "a SessionScope cannot be copied or pickled" in result.error
    assert "pickle context.to_wire(), or a replace(context, scope=None)" in result.error
    cured = ToolExecutionContext(scope=None)
    assert pickled(cured) == cured


def test_a_context_that_holds_itself() -> None:
    """A variable may lead back to the context, as that of an agent's state does."""
    context = ToolExecutionContext(caller_id="ada")
    context.variables["context"] = context
    copied = copy.deepcopy(context)
    assert copied is not context
    assert copied.variables["context"] is copied


def test_a_snapshot_of_tools() -> None:
    """Copies of an index are itself, as it never changes; pickled it has its tools and groups."""
    index = engine().index.with_groups({"g": ToolGroup(name="g", tools=("echo",))})
    assert copy.copy(index) is copy.deepcopy(index) is index
    copied = pickled(index)
    assert copied.list_all() == index.list_all()
    assert copied.groups == index.groups
