"""A server with all that the conformance suite of the protocol asks for: run it as a program."""

from __future__ import annotations

import asyncio
import base64
import json
import sys
from typing import Any

from tool_engine import ToolEngine, ToolEngineConfig, ToolExecutionContext
from tool_engine.mcp_server import MCPServer, PromptArgument, find_request

PNG = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAA"
    "AABJRU5ErkJggg=="
)
WAV = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="
NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
COLOUR = {"type": "object", "properties": {"color": {"type": "string"}}, "required": ["color"]}
CONFIRM = {
    "type": "object",
    "properties": {"confirm": {"type": "boolean"}},
    "required": ["confirm"],
}
OK = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}


def form(message: str, schema: dict[str, Any]) -> dict[str, Any]:
    params = {"mode": "form", "message": message, "requestedSchema": schema}
    return {"method": "elicitation/create", "params": params}


def sample(text: str, most: int) -> dict[str, Any]:
    message = {"role": "user", "content": {"type": "text", "text": text}}
    return {
        "method": "sampling/createMessage",
        "params": {"messages": [message], "maxTokens": most},
    }


ROOTS: dict[str, Any] = {"method": "roots/list", "params": {}}


async def simple_text() -> str:
    """Return a text."""
    return "This is a simple text response for testing."


async def image_content() -> dict[str, Any]:
    """Return an image."""
    return {"content": [{"type": "image", "data": PNG, "mimeType": "image/png"}]}


async def audio_content() -> dict[str, Any]:
    """Return a sound."""
    return {"content": [{"type": "audio", "data": WAV, "mimeType": "audio/wav"}]}


async def embedded_resource() -> dict[str, Any]:
    """Return a resource."""
    resource = {
        "uri": "test://embedded-resource",
        "mimeType": "text/plain",
        "text": "This is an embedded resource content.",
    }
    return {"content": [{"type": "resource", "resource": resource}]}


async def multiple_content_types() -> dict[str, Any]:
    """Return content of several kinds."""
    resource = {
        "uri": "test://mixed-content-resource",
        "mimeType": "application/json",
        "text": '{"test":"data","value":123}',
    }
    return {
        "content": [
            {"type": "text", "text": "Multiple content types test:"},
            {"type": "image", "data": PNG, "mimeType": "image/png"},
            {"type": "resource", "resource": resource},
        ]
    }


async def error_handling() -> str:
    """Fail."""
    raise RuntimeError("This tool intentionally returns an error for testing")


async def tool_with_progress(context: ToolExecutionContext) -> str:
    """Report progress."""
    for done in (0, 50, 100):
        await context.report_progress(done, 100)
        await asyncio.sleep(0.15)
    return "done"


async def logging_tool(context: ToolExecutionContext) -> str:
    """Write a line for people."""
    await context.log("a line")
    return "logged"


async def tool_with_logging(context: ToolExecutionContext) -> str:
    """Write lines for people."""
    for line in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await context.log(line)
        await asyncio.sleep(0.06)
    return "logged"


async def input_required_result_elicitation() -> str:
    """Ask for a name."""
    request = find_request()
    assert request is not None
    answer = await request.elicit("user_name", "What is your name?", NAME)
    return f"Hello, {answer['content']['name']}!"


async def input_required_result_sampling() -> str:
    """Ask a model."""
    request = find_request()
    assert request is not None
    asked = {"capital_question": sample("What is the capital of France?", 100)}
    answers = await request.ask(asked)
    return json.dumps(answers["capital_question"]["content"])


async def input_required_result_list_roots() -> str:
    """Ask for roots."""
    request = find_request()
    assert request is not None
    return json.dumps((await request.ask({"client_roots": ROOTS}))["client_roots"])


async def input_required_result_request_state() -> str:
    """Ask with a state."""
    request = find_request()
    assert request is not None
    await request.ask({"confirm": form("Please confirm", OK)}, state="asked")
    return "state-ok" if request.state == "asked" else "the state is lost"


async def input_required_result_multiple_inputs() -> str:
    """Ask three things."""
    request = find_request()
    assert request is not None
    asked = {
        "user_name": form("What is your name?", NAME),
        "greeting": sample("Generate a greeting", 50),
        "client_roots": ROOTS,
    }
    return json.dumps(await request.ask(asked, state="asked"))


async def input_required_result_multi_round() -> str:
    """Ask twice."""
    request = find_request()
    assert request is not None
    if request.state is None or not request.state.startswith("name:"):
        first = (
            await request.ask({"step1": form("Step 1: your name?", NAME)}, state="one")
            if (request.state is None)
            else await request.ask({"step1": form("Step 1: your name?", NAME)})
        )
        name = first["step1"]["content"]["name"]
    else:
        name = request.state.removeprefix("name:")
    second = await request.ask(
        {"step2": form("Step 2: your favorite color?", COLOUR)}, state=f"name:{name}"
    )
    return f"{name} likes {second['step2']['content']['color']}"


async def input_required_result_tampered_state() -> str:
    """Ask with a state that nobody may change."""
    request = find_request()
    assert request is not None
    await request.ask({"confirm": form("Please confirm", OK)}, state="sealed")
    return "confirmed"


async def input_required_result_capabilities() -> str:
    """Ask what the client can answer."""
    request = find_request()
    assert request is not None
    asked: dict[str, Any] = {}
    if request.can("elicitation"):
        asked["user_name"] = form("What is your name?", NAME)
    if request.can("sampling"):
        asked["greeting"] = sample("Generate a greeting", 50)
    return json.dumps(await request.ask(asked))


async def streaming_elicitation(context: ToolExecutionContext) -> str:
    """Report progress, then ask."""
    await context.report_progress(1, 2)
    request = find_request()
    assert request is not None
    return str(await request.elicit("user_name", "What is your name?", NAME))


async def missing_capability() -> str:
    """Need what the client cannot do."""
    request = find_request()
    assert request is not None
    return json.dumps(await request.ask({"greeting": sample("Generate a greeting", 50)}))


async def sampling(prompt: str) -> str:
    """Ask a model.

    Args:
        prompt: What it is asked.
    """
    request = find_request()
    assert request is not None
    answers = await request.ask({"said": sample(prompt, 100)})
    return f"LLM response: {answers['said']['content']}"


async def elicitation(message: str) -> str:
    """Ask a person.

    Args:
        message: What the person reads.
    """
    fields = {
        "username": {"type": "string", "description": "User's response"},
        "email": {"type": "string", "description": "User's email address"},
    }
    return f"User response: {await _ask_fields(message, fields, list(fields))}"


async def elicitation_sep1034_defaults() -> str:
    """Ask with defaults."""
    fields = {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {
            "type": "string",
            "enum": ["active", "inactive", "pending"],
            "default": "active",
        },
        "verified": {"type": "boolean", "default": True},
    }
    return f"Elicitation completed: {await _ask_fields('Please fill in', fields, [])}"


async def elicitation_sep1330_enums() -> str:
    """Ask with enums."""
    plain = ["option1", "option2", "option3"]
    titled = [{"const": f"value{n}", "title": f"Option {n}"} for n in (1, 2, 3)]
    fields = {
        "untitledSingle": {"type": "string", "enum": plain},
        "titledSingle": {"type": "string", "oneOf": titled},
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": plain}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled}},
    }
    return f"Elicitation completed: {await _ask_fields('Please choose', fields, [])}"


async def _ask_fields(message: str, fields: dict[str, Any], needed: list[str]) -> str:
    request = find_request()
    assert request is not None
    schema = {"type": "object", "properties": fields, **({"required": needed} if needed else {})}
    answer = await request.elicit("fields", message, schema)
    return f"action={answer['action']}, content={answer.get('content')}"


def add_prompts(server: MCPServer) -> None:
    server.add_prompt(
        "test_simple_prompt",
        lambda: "This is a simple prompt for testing.",
        description="Says one thing.",
    )
    server.add_prompt(
        "test_prompt_with_arguments",
        lambda arg1, arg2: f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'",
        description="Says what it is given.",
        arguments=[
            PromptArgument(name="arg1", is_required=True, values=("paris", "park", "party")),
            PromptArgument(name="arg2", is_required=True),
        ],
    )

    def embed(resourceUri: str) -> list[dict[str, Any]]:  # noqa: N803 - as the suite spells it
        resource = {
            "uri": resourceUri,
            "mimeType": "text/plain",
            "text": "Embedded resource content for testing.",
        }
        return [
            {"role": "user", "content": {"type": "resource", "resource": resource}},
            {"role": "user", "content": {"type": "text", "text": "Please process it."}},
        ]

    uri = PromptArgument(name="resourceUri", is_required=True)
    server.add_prompt(
        "test_prompt_with_embedded_resource", embed, description="Embeds.", arguments=[uri]
    )
    image = {"type": "image", "data": PNG, "mimeType": "image/png"}
    server.add_prompt(
        "test_prompt_with_image",
        lambda: [
            {"role": "user", "content": image},
            {"role": "user", "content": {"type": "text", "text": "Please analyze it."}},
        ],
        description="Shows an image.",
    )

    async def ask_context() -> str:
        request = find_request()
        assert request is not None
        schema = {
            "type": "object",
            "properties": {"context": {"type": "string"}},
            "required": ["context"],
        }
        answer = await request.elicit("user_context", "What context?", schema)
        return f"Use this: {answer['content']['context']}"

    server.add_prompt("test_input_required_result_prompt", ask_context, description="Asks first.")


def add_resources(server: MCPServer) -> None:
    server.add_resource(
        "test://static-text",
        lambda: "This is the content of the static text resource.",
        mime_type="text/plain",
    )
    server.add_resource(
        "test://static-binary", lambda: base64.b64decode(PNG), mime_type="image/png"
    )

    def read_template(id: str) -> str:  # noqa: A002 - as the suite spells it
        return json.dumps({"id": id, "templateTest": True, "data": f"Data for ID: {id}"})

    server.add_resource("test://template/{id}/data", read_template, mime_type="application/json")


async def greet(name: str) -> str:
    """Greet.

    Args:
        name: Who.
    """
    return f"Hello, {name}!"


async def slow_compute(seconds: float, label: str = "") -> str:
    """Take a while.

    Args:
        seconds: How long.
        label: What it is called.
    """
    await asyncio.sleep(seconds)
    return f"{label} is done"


async def failing_job() -> str:
    """Fail after a while."""
    await asyncio.sleep(1)
    raise RuntimeError("This tool intentionally fails")


async def protocol_error_job() -> str:
    """Need, after a while, what the client cannot do."""
    await asyncio.sleep(1)
    request = find_request()
    assert request is not None
    return json.dumps(await request.ask({"folders": ROOTS}))


async def confirm_delete(filename: str) -> str:
    """Look for a file, then ask.

    Args:
        filename: Its name.
    """
    await asyncio.sleep(1)
    request = find_request()
    assert request is not None
    answer = await request.elicit("confirm", f"Delete {filename}?", CONFIRM)
    return json.dumps(answer)


async def multi_input() -> str:
    """Ask two things, after a while."""
    await asyncio.sleep(1)
    request = find_request()
    assert request is not None
    asked = {"name": form("Your name?", NAME), "confirm": form("Sure?", CONFIRM)}
    return json.dumps(await request.ask(asked))


async def tool_with_task() -> str:
    """Ask for a name, then take a while."""
    request = find_request()
    assert request is not None
    answer = await request.elicit("user_name", "What is your name?", NAME)
    await asyncio.sleep(1)
    return f"Hello, {answer['content']['name']}!"


TASKS: dict[str, tuple[Any, str]] = {
    "greet": (greet, "never"),
    "slow_compute": (slow_compute, "allowed"),
    "failing_job": (failing_job, "required"),
    "protocol_error_job": (protocol_error_job, "required"),
    "confirm_delete": (confirm_delete, "allowed"),
    "multi_input": (multi_input, "allowed"),
    "test_tool_with_task": (tool_with_task, "required"),
}
TOOLS = (
    simple_text,
    image_content,
    audio_content,
    embedded_resource,
    multiple_content_types,
    error_handling,
    tool_with_progress,
    logging_tool,
    tool_with_logging,
    input_required_result_elicitation,
    input_required_result_sampling,
    input_required_result_list_roots,
    input_required_result_request_state,
    input_required_result_multiple_inputs,
    input_required_result_multi_round,
    input_required_result_tampered_state,
    input_required_result_capabilities,
    streaming_elicitation,
    missing_capability,
    sampling,
    elicitation,
    elicitation_sep1034_defaults,
    elicitation_sep1330_enums,
)


async def main() -> None:
    async with ToolEngine(ToolEngineConfig(tools_directory=sys.argv[1])) as engine:
        for function in TOOLS:
            engine.tool(name=f"test_{function.__name__}")(function)
        for name, (run, background) in TASKS.items():
            engine.tool(name=name, background=background)(run)
        server = MCPServer(engine, name="everything", task_after=0.7)
        add_prompts(server)
        add_resources(server)
        await server.run_http(port=0, on_ready=lambda url: print(url, flush=True))


if __name__ == "__main__":
    asyncio.run(main())
