"""Do tools do what the examples and tests in their own definitions say?

Each call goes through the whole engine: arguments are validated, the tool's executor runs, its
output is compared and checked against the output that the definition declares. The test's own
files, databases and recordings replace the outside world (`stand_ins`). To be quick, rate and
concurrency limits are lifted and retries do not pause; the number of attempts stays.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from importlib import import_module
from typing import Any

import msgspec

from tool_engine.catalog.definition_files import read_definition
from tool_engine.catalog.index import ToolIndex
from tool_engine.catalog.yaml.document import Path
from tool_engine.engine import ToolEngine
from tool_engine.errors import DefinitionError
from tool_engine.model.settings.concurrency import ToolConcurrency
from tool_engine.model.tool import Tool
from tool_engine.testing.cases import CaseRunner
from tool_engine.testing.report import CaseReport, CaseStatus, ToolReport
from tool_engine.testing.schema_check import check_schema


async def check_definitions(
    engine: ToolEngine,
    names: Iterable[str] | None = None,
    *,
    seed: int = 0,
    cases: int = 20,
) -> list[ToolReport]:
    """Run the examples and tests of `engine`'s tools, and try out their parameters.

    Use the engine for this alone: its tools lose their limits, its HTTP tools their network,
    its SQL tools their databases, and no file tool writes to its real folder.

    Args:
        engine: Loaded, with the executors and handlers that its tools need.
        names: The tools to look at; None: all.
        seed: Picks the generated arguments; the same seed makes the same ones.
        cases: How many generated arguments each tool has to accept; 0 generates none. They are
            only validated: no tool is run with generated arguments.

    Returns:
        A report for each tool, by name.

    Raises:
        ToolNotFoundError: There is no tool of one of the names.
    """
    chosen = engine.list_names() if names is None else sorted(set(names))
    tools = [engine.get_or_raise(name) for name in chosen]
    # Imported by name, in a thread: aiohttp takes longer to load than all else that runs here.
    room = await asyncio.to_thread(import_module, "tool_engine.testing.stand_ins")
    stand_ins = room.StandIns(engine)
    engine.index = ToolIndex([_lift_limits(tool) for tool in engine.index])
    runner = CaseRunner(engine, stand_ins)
    reports = []
    for tool in tools:
        report = ToolReport(tool.name, tool.source)
        try:
            report.cases = await runner.run(tool)
            check_schema(tool, report, seed=seed, cases=cases)
        except DefinitionError as error:
            report.cases.append(CaseReport((), "", CaseStatus.FAILED, [str(error)]))
        await asyncio.to_thread(_locate_cases, report)
        reports.append(report)
    return reports


def _lift_limits(tool: Tool) -> Tool:
    """Return the tool without limits that make its tests wait for one another."""
    retry = None if tool.retry is None else msgspec.structs.replace(tool.retry, backoff=0.0)
    return msgspec.structs.replace(tool, rate=None, concurrency=ToolConcurrency(), retry=retry)


def _locate_cases(report: ToolReport) -> None:
    """Find file and line of cases that have not passed."""
    troubled = [case for case in report.cases if case.status is not CaseStatus.PASSED]
    for case in troubled:
        case.place = report.source
    if not troubled or report.source is None:
        return
    try:
        data = read_definition(report.source).data
    except DefinitionError:
        # It is gone since it was loaded.
        return
    documents, _ = import_module("tool_engine.catalog.yaml.strict_yaml").parse_yaml(
        data, report.source
    )
    for document in documents:
        if isinstance(document.value, dict) and document.value.get("name") == report.tool:
            for case in troubled:
                line, _ = document.position(_name_parameter(case.path, document.value))
                case.place = f"{report.source}:{line}"


def _name_parameter(path: Path, definition: dict[str, Any]) -> Path:
    """Return a path that names a parameter instead of counting it."""
    if path[:1] != ("parameters",):
        return path
    parameters: Any = definition.get("parameters", ())
    if isinstance(parameters, dict):
        return ("parameters", "properties", *path[1:])
    names = [each.get("name") for each in parameters if isinstance(each, dict)]
    return ("parameters", names.index(path[1])) if path[1:] and path[1] in names else path[:1]
