"""Does a tool do what the examples and tests of its definition say?"""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from tool_engine.access.problem import Problem
from tool_engine.errors import ToolExecutionError
from tool_engine.model.tool import is_source_name
from tool_engine.redaction import redact
from tool_engine.server.operation import Asked, serve_at
from tool_engine.server.tools import find_tool


class TestingRequest(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """How the tests of a tool are run."""

    seed: Annotated[int, Meta(ge=0, le=2**31, description="Picks the generated arguments.")] = 0
    cases: Annotated[
        int, Meta(ge=0, le=1_000, description="Generated arguments that it has to accept.")
    ] = 20
    timeout: Annotated[float, Meta(gt=0, le=300, description="Seconds for all together.")] = 60.0


class CaseOutcome(msgspec.Struct):
    """One example, one test, or one broken rule of the parameters."""

    path: list[str | int]
    """Where it stands in the definition, such as `["tests", 0]`."""
    title: str
    status: str
    """`passed`, `failed` or `skipped`."""
    problems: list[str]
    """Each difference, with its cure."""
    place: str | None
    """File and line, of one that has not passed."""


class TestedTool(msgspec.Struct):
    """The outcome of the examples and tests of a tool."""

    tool: str
    source: str | None
    passed: int
    failed: int
    skipped: int
    accepted: int
    """Generated arguments that it rightly accepts."""
    refused: int
    """Broken rules that it rightly refuses."""
    notes: list[str]
    cases: list[CaseOutcome]


@serve_at(
    "POST",
    "/v1/tools/{name}/tests",
    scope="operate",
    answer=TestedTool,
    body=TestingRequest,
    is_body_needed=False,
    errors=(404, 409),
    is_cancelled_with_client=True,
)
async def run_tests(asked: Asked) -> Any:
    """Run the examples and tests of a tool, as `tool-engine test` does, in a process of their own.

    They are those of its file as it is now. The network, databases and files are stood in for.
    """
    # By name: few servers run tests, and it imports what runs commands.
    from tool_engine.testing.alone import Wanted, check_tool_alone

    tool, engine = find_tool(asked, asked.path["name"]), asked.engine
    if tool.source is None or is_source_name(tool.source):
        detail = (
            f"{tool.name!r} is of no file, and only the program that has it can run its tests; use "
            "tool_engine.testing.check_definitions there"
        )
        raise Problem(409, "no-file", detail)
    config, body = engine.config, asked.body
    wanted = Wanted(tool.name, config.tools_directory, config.recursive, body.seed, body.cases)
    async with asked.served.testing:
        try:
            report = await check_tool_alone(wanted, body.timeout)
        except ToolExecutionError as error:
            raise Problem(409, "not-tested", str(error)) from error
    return await asyncio.to_thread(redact, report.to_dict())


OPERATIONS = (run_tests,)
