"""What comes of the tools of other frameworks in an engine, with the real libraries."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from tests.integrations.frameworks import BORROWED, FRAMEWORKS, make_step, make_wait
from tool_engine import (
    CallbackApprover,
    ConcurrencyConfig,
    ToolEngine,
    ToolEngineConfig,
    ToolSession,
)
from tool_engine.errors import ConfigurationError
from tool_engine.interfaces import CatalogSource

BOUND = 60.0
Borrow = Callable[..., CatalogSource]


@pytest.fixture(params=BORROWED, ids=lambda each: each.__name__)
def borrow(request: pytest.FixtureRequest) -> Any:
    name = request.param.__name__.removesuffix("_tools")
    pytest.importorskip(f"tool_engine.integrations.{name}", exc_type=ImportError)
    return request.param


async def multiply(first: int, second: int = 2) -> int:
    """Multiply two numbers."""
    return first * second


async def test_it_is_a_tool_like_another(engine: ToolEngine, borrow: Borrow) -> None:
    """Its schema is the framework's; its calls are checked, run and recorded."""
    source = borrow(multiply)
    assert (await engine.add_source(source))["added"] == ["multiply"]
    tool = engine.get_or_raise("multiply")
    assert tool.origin == source.origin
    assert "Multiply two numbers." in tool.description
    assert tool.parameters_schema["properties"]["first"]["type"] == "integer"
    result = await engine.execute("multiply", {"first": 4, "second": 5})
    assert result.is_success, result.error
    assert str(result.output["result"]) == "20"
    wrong = await engine.execute("multiply", {"first": "four", "second": 5})
    assert wrong.error_type == "validation_error"
    assert [each.tool_name for each in await engine.query_call_records()] == ["multiply"] * 2
    assert (await engine.remove_source(source))["removed"] == ["multiply"]


async def test_default_is_put_in(engine: ToolEngine, borrow: Borrow) -> None:
    if borrow.__name__ == "openai_agents_tools":
        # In its strict mode each argument is required.
        await engine.add_source(borrow(multiply, strict_mode=False))
    else:
        await engine.add_source(borrow(multiply))
    result = await engine.execute("multiply", {"first": 4})
    assert str(result.output["result"]) == "8"


async def test_its_failure_is_one(engine: ToolEngine, borrow: Borrow) -> None:
    """What the framework would tell its model in a text is a failed call here."""

    async def fail(reason: str) -> str:
        """Fail."""
        raise ValueError(f"no {reason}")

    await engine.add_source(borrow(fail))
    result = await engine.execute("fail", {"reason": "luck"})
    assert result.error_type == "execution_error"
    assert "no luck" in str(result.error)


async def test_deadline_of_the_engine_holds(engine: ToolEngine, borrow: Borrow) -> None:
    wait, _, ended = make_wait()

    await engine.add_source(borrow(wait))
    session = ToolSession(engine, "chat")
    async with asyncio.timeout(BOUND):
        result = await session.sub_agent("helper").execute("wait", {"reason": "x"}, timeout=0.05)
        await ended.wait()
    assert result.error_type == "timeout"


async def test_cancelling_the_caller_cancels_it(engine: ToolEngine, borrow: Borrow) -> None:
    """Its own work has ended by then, and its record says what became of the call."""
    wait, began, ended = make_wait()

    await engine.add_source(borrow(wait))
    async with asyncio.timeout(BOUND):
        call = asyncio.create_task(ToolSession(engine, "chat").execute("wait", {"reason": "x"}))
        await began.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await ended.wait()
    (record,) = await engine.query_call_records()
    assert (record.error_type, record.session_id) == ("cancelled", "chat")


async def test_limits_hold_for_all_of_them(tmp_path: Path, borrow: Borrow) -> None:
    """They share the engine's slots with every other tool, and wait for one."""
    step, at_work = make_step()

    config = ToolEngineConfig(tools_directory=str(tmp_path), auto_reload=False)
    async with ToolEngine(config, concurrency=ConcurrencyConfig(max_concurrent=1)) as engine:
        await engine.add_source(borrow(step))
        async with asyncio.TaskGroup() as group:
            calls = [group.create_task(engine.execute("step", {"number": at})) for at in range(4)]
        assert [str(each.result().output["result"]) for each in calls] == ["0", "1", "2", "3"]
    assert at_work == [1, 1, 1, 1]


async def test_reload_keeps_them_and_workflows_call_them(
    engine: ToolEngine, borrow: Borrow, tmp_path: Path
) -> None:
    """A file that comes later uses them; the call inside belongs to the one outside."""
    await engine.add_source(borrow(multiply))
    text = "name: twice\ndescription: Double.\neffect: read\n"
    text += "parameters: [{name: number, type: integer, description: Which., required: true}]\n"
    text += "entry: {type: workflow, steps: [{id: out, tool: multiply, "
    text += "params: {first: '${params.number}', second: 2}}]}\n"
    (tmp_path / "twice.yaml").write_text(text)
    assert (await engine.reload())["added"] == ["twice"]
    result = await engine.execute("twice", {"number": 21})
    assert result.is_success, result.error
    assert str(result.output["result"]) == "42"
    records = {each.tool_name: each for each in await engine.query_call_records()}
    assert records["multiply"].parent_call_id == records["twice"].call_id


@pytest.mark.parametrize(
    ("borrow", "key"),
    [(0, "requires_approval"), (2, "needs_approval")],
    ids=["pydantic-ai", "openai-agents"],
)
async def test_its_consent_is_asked_for(engine: ToolEngine, borrow: int, key: str) -> None:
    """What asked for approval there asks the approver here."""
    await engine.add_source(BORROWED[borrow](multiply, **{key: True}))
    session = ToolSession(engine, "chat", approver=CallbackApprover(lambda request: "not today"))
    result = await session.execute("multiply", {"first": 1, "second": 2})
    assert result.error_type == "execution_rejected"
    assert "not today" in str(result.error)


@pytest.mark.parametrize("borrow", [0, 2], ids=["pydantic-ai", "openai-agents"])
async def test_its_timeout_holds(engine: ToolEngine, borrow: int) -> None:
    await engine.add_source(BORROWED[borrow](multiply, timeout=7))
    assert engine.get_or_raise("multiply").timeout == 7


async def test_what_needs_its_framework_is_left_out(engine: ToolEngine) -> None:
    """A tool that only its own agents can run is a load error, with the reason and a cure."""
    for module in ("agents", "llama_index.core", "pydantic_ai"):
        pytest.importorskip(module)
    from agents import ToolGuardrailFunctionOutput, function_tool, tool_input_guardrail
    from llama_index.core.tools import FunctionTool
    from llama_index.core.workflow import Context
    from pydantic_ai import RunContext, Tool

    from tool_engine.integrations.llamaindex import from_llamaindex_tools
    from tool_engine.integrations.openai_agents import from_openai_agents_tools
    from tool_engine.integrations.pydantic_ai import from_pydantic_ai_tools

    def read_deps(ctx, first: int) -> str:  # type: ignore[no-untyped-def]
        """Read."""
        return str(ctx.deps) * first

    async def read_state(ctx, first: int) -> str:  # type: ignore[no-untyped-def]
        """Read."""
        return str(ctx) * first

    # Hints are looked up in the module, which need not have the libraries.
    read_deps.__annotations__["ctx"] = RunContext[str]
    read_state.__annotations__["ctx"] = Context

    @tool_input_guardrail
    def guard(data: Any) -> ToolGuardrailFunctionOutput:
        return ToolGuardrailFunctionOutput.allow()

    @function_tool(tool_input_guardrails=[guard])
    def guarded(first: int) -> int:
        """Guarded."""
        return first

    await engine.add_source(from_pydantic_ai_tools([Tool(read_deps, takes_ctx=True)]))
    await engine.add_source(
        from_llamaindex_tools([FunctionTool.from_defaults(async_fn=read_state)])
    )
    await engine.add_source(from_openai_agents_tools([guarded]))
    assert engine.list_names() == []
    told = " ".join(message for _, message in engine.load_errors)
    assert "takes the RunContext" in told
    assert "takes the Context of a workflow" in told
    assert "has guardrails" in told


async def test_tools_that_only_an_agent_switches_or_completes(engine: ToolEngine) -> None:
    """They are left out, with the reason: what is off there does not run here."""
    for module in ("agents", "langchain_core", "pydantic_ai"):
        pytest.importorskip(module)
    from typing import Annotated

    from agents import function_tool
    from langchain_core.tools import InjectedToolArg, StructuredTool
    from pydantic_ai import Tool

    from tool_engine.integrations.langchain import from_langchain_tools
    from tool_engine.integrations.openai_agents import from_openai_agents_tools
    from tool_engine.integrations.pydantic_ai import from_pydantic_ai_tools

    async def read(first: int, user: str = "") -> str:
        """Read."""
        return user * first

    async def hide(_: Any, __: Any) -> None:
        return None

    off = function_tool(is_enabled=False, name_override="off")(read)
    asked = function_tool(is_enabled=lambda _, __: False, name_override="asked")(read)
    await engine.add_source(from_openai_agents_tools([off, asked]))
    await engine.add_source(from_pydantic_ai_tools([Tool(read, name="hidden", prepare=hide)]))
    read.__annotations__["user"] = Annotated[str, InjectedToolArg]
    injected = StructuredTool.from_function(coroutine=read, name="injected")
    await engine.add_source(from_langchain_tools([injected]))
    assert engine.list_names() == []
    told = " ".join(message for _, message in engine.load_errors)
    for words in ("'off' has is_enabled", "'asked' has", "'hidden' has a prepare", "takes 'user'"):
        assert words in told


@pytest.mark.parametrize("kind", ["RunContextWrapper", "ToolContext"])
async def test_context_of_a_run_of_openai_agents(engine: ToolEngine, kind: str) -> None:
    """A tool that reads it fails in words; None would be taken for what a program gave."""
    agents = pytest.importorskip("agents")
    from agents import function_tool
    from agents.tool_context import ToolContext

    from tool_engine.integrations.openai_agents import from_openai_agents_tools

    async def read_user(ctx, first: int) -> str:  # type: ignore[no-untyped-def]
        """Read."""
        return str(ctx.context["user"]) * first

    classes = {"RunContextWrapper": agents.RunContextWrapper, "ToolContext": ToolContext}
    read_user.__annotations__["ctx"] = classes[kind][Any]
    await engine.add_source(from_openai_agents_tools([function_tool(read_user)]))
    result = await engine.execute("read_user", {"first": 1})
    assert not result.is_success
    assert "reads the context of a run" in str(result.error)


async def test_error_that_a_tool_of_langchain_handles(engine: ToolEngine) -> None:
    """`handle_tool_error` makes a text of an error; here it stays one."""
    from langchain_core.tools import StructuredTool, ToolException

    from tool_engine.integrations.langchain import from_langchain_tools

    async def fail(reason: str) -> str:
        """Fail."""
        raise ToolException(f"no {reason}")

    tool = StructuredTool.from_function(coroutine=fail, handle_tool_error=True)
    await engine.add_source(from_langchain_tools([tool]))
    result = await engine.execute("fail", {"reason": "luck"})
    assert (result.error_type, result.error) == ("execution_error", "no luck")


def test_two_of_one_name(borrow: Borrow) -> None:
    with pytest.raises(ConfigurationError, match="two of the tools are named 'multiply'"):
        borrow(multiply, multiply)


@pytest.mark.parametrize("kind", FRAMEWORKS, ids=lambda each: each.name)
def test_what_is_no_tool(kind: Any) -> None:
    module = kind.modules[0]
    name = module.rpartition(".")[2]
    found = pytest.importorskip(module, exc_type=ImportError)
    with pytest.raises(ConfigurationError, match="got function"):
        getattr(found, f"from_{name}_tools")([multiply])


@pytest.mark.parametrize(
    ("module", "library", "extra"),
    [
        ("pydantic_ai", "pydantic_ai", "pydantic-ai"),
        ("langchain", "langchain_core", "langchain"),
        ("openai_agents", "agents", "openai-agents"),
        ("llamaindex", "llama_index", "llamaindex"),
    ],
)
def test_missing_library_is_named(module: str, library: str, extra: str) -> None:
    """Without the library the import says which extra brings it."""
    code = (
        f"import sys; sys.modules[{library!r}] = None\n"
        f"try:\n    import tool_engine.integrations.{module}\n"
        "except ImportError as error:\n    print(type(error).__name__, error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("MissingExtraError"), done.stdout
    assert f"pip install 'tool-engine[{extra}]'" in done.stdout


async def test_list_of_a_frameworks_tools_is_imported(engine: ToolEngine, borrow: Borrow) -> None:
    """`import_tools` takes them without `call`: they bring what runs them."""
    tools = list_own_tools(borrow, multiply)
    assert (await engine.import_tools(tools, origin="import:theirs"))["added"] == ["multiply"]
    assert engine.get_or_raise("multiply").origin == "import:theirs"
    result = await engine.execute("multiply", {"first": 4, "second": 5})
    assert str(result.output["result"]) == "20"
    with pytest.raises(ConfigurationError, match="leave out call"):
        await engine.import_tools(tools, lambda name, arguments: 1, origin="import:again")
    with pytest.raises(ConfigurationError, match="got dict at position 1"):
        await engine.import_tools([*tools, {"name": "x"}], origin="import:mixed")
    with pytest.raises(ConfigurationError, match="put it in a list"):
        await engine.import_tools(tools[0])


def list_own_tools(borrow: Borrow, *functions: Any) -> list[Any]:
    """Return the framework's own tools of functions, as a program has them."""
    if borrow.__name__ == "pydantic_ai_tools":
        from pydantic_ai import Tool

        return [Tool(each) for each in functions]
    if borrow.__name__ == "langchain_tools":
        from langchain_core.tools import StructuredTool

        return [StructuredTool.from_function(coroutine=each) for each in functions]
    if borrow.__name__ == "openai_agents_tools":
        from agents import function_tool

        return [function_tool(each) for each in functions]
    from llama_index.core.tools import FunctionTool

    return [FunctionTool.from_defaults(async_fn=each) for each in functions]


async def test_list_that_says_only_what_tools_there_are(engine: ToolEngine) -> None:
    with pytest.raises(ConfigurationError, match="call, which runs the tools, must be a function"):
        await engine.import_tools([{"name": "now", "parameters": {}}])


@pytest.mark.parametrize(
    "tools", [5, None, "multiply", multiply], ids=lambda each: type(each).__name__
)
@pytest.mark.parametrize("kind", FRAMEWORKS, ids=lambda each: each.name)
def test_what_is_no_list(kind: Any, tools: Any) -> None:
    module = kind.modules[0]
    name = module.rpartition(".")[2]
    found = pytest.importorskip(module, exc_type=ImportError)
    with pytest.raises(ConfigurationError, match="takes a list of tools, got"):
        getattr(found, f"from_{name}_tools")(tools)


async def test_one_tool_in_place_of_a_list(borrow: Borrow) -> None:
    (tool,) = list_own_tools(borrow, multiply)
    name = borrow.__name__.removesuffix("_tools")
    module = pytest.importorskip(f"tool_engine.integrations.{name}", exc_type=ImportError)
    with pytest.raises(ConfigurationError, match="put it in a list"):
        getattr(module, f"from_{name}_tools")(tool)


class Node(BaseModel):
    """A node of a tree."""

    value: int
    inner: list[Node] = []


async def sum_up(tree: Node, factor: int) -> int:
    """Sum up a tree."""
    tree = Node.model_validate(tree)  # LlamaIndex sends what the model wrote.
    return tree.value * factor + sum([await sum_up(each, factor) for each in tree.inner])


sum_up.__annotations__["tree"] = Node  # LlamaIndex does not look it up.


async def test_schema_that_refers_to_itself(engine: ToolEngine, borrow: Borrow) -> None:
    """What stands inside is checked at every depth, and read as the function has it."""
    options = {"strict_mode": False} if borrow.__name__ == "openai_agents_tools" else {}
    await engine.add_source(borrow(sum_up, **options))
    tree = {"value": 1, "inner": [{"value": 2, "inner": [{"value": 3, "inner": []}]}]}
    result = await engine.execute("sum_up", {"tree": tree, "factor": 2})
    assert result.is_success, result.error
    assert str(result.output["result"]) == "12"
    tree["inner"][0]["inner"][0]["value"] = "three"  # type: ignore[index]
    wrong = await engine.execute("sum_up", {"tree": tree, "factor": 2})
    assert wrong.error_type == "validation_error"
    assert "tree.inner[0].inner[0].value" in str(wrong.error)


async def test_tool_whose_schema_its_framework_cannot_write(engine: ToolEngine) -> None:
    """It is left out, with the framework's reason; the others load."""
    pytest.importorskip("llama_index.core")

    async def unknown(first: Missing) -> str:  # type: ignore[name-defined]  # noqa: F821 - it is missing
        """Unknown."""
        return str(first)

    await engine.add_source(BORROWED[3](unknown, multiply))
    assert engine.list_names() == ["multiply"]
    (told,) = [message for _, message in engine.load_errors]
    assert "'unknown' cannot be read: " in told
    assert "not fully defined" in told
