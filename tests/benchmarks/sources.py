"""How long does a source of 10,000 tools take to come, to change in one of them, and to go?

Counted is the processor time of the whole process, threads included: what others compute beside it
adds little, and what the tables before it have left is collected before it begins: of two million
objects a collection takes 0.2 s. All mappings are made anew for each reading, as a source does that
reads a list from elsewhere.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Awaitable, Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

from tests.benchmarks import report
from tests.sources_of_tools import ListSource, definition, tool
from tool_engine import Tool, ToolEngine, ToolEngineConfig

__all__ = ["sources"]

MANY = 10_000
REPEATS = 5
ADD_BUDGET = 0.5
"""Seconds to add them."""
REPLACE_BUDGET = 20.0
"""Milliseconds to replace one of them."""
_BUDGETED = ("mappings", "mappings with two parameters", "mappings with a JSON Schema")
"""Schemas of two to six parameters that all differ are shown beside them, without a budget."""
_PARAMETERS = [
    {"name": "path", "type": "string", "required": True, "description": "Where.", "min_length": 1},
    {"name": "limit", "type": "integer", "default": 10, "description": "How many.", "min": 1},
]
_SCHEMA = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "description": "Where.", "minLength": 1},
        "limit": {"type": "integer", "default": 10, "description": "How many.", "minimum": 1},
    },
    "required": ["path"],
}
_KINDS: list[dict[str, Any]] = [
    {"type": "string"},
    {"type": "integer", "minimum": 1, "maximum": 100, "default": 30},
    {"type": "string", "enum": ["open", "closed", "all"], "default": "open"},
    {"type": "array", "items": {"type": "string", "description": "One of them."}},
    {"type": "object", "properties": {"name": {"type": "string", "description": "Its name."}}},
    {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
]


def _varied(name: str, **keys: Any) -> dict[str, Any]:
    """Return a tool as servers of MCP have them: two to six parameters, said in its own words."""
    number = int(name.rpartition("_")[2])
    properties = {
        f"argument_{(number + at) % 15}": {
            "description": f"What {name} does with the argument {at}, in some words.",
            **_KINDS[(number // 7 + at * at) % len(_KINDS)],
        }
        for at in range(2 + number % 5)
    }
    schema = {"type": "object", "properties": properties, "required": list(properties)[:1]}
    return definition(name, parameters=schema, **keys)


_FORMS: dict[str, Callable[..., Any]] = {
    "mappings": definition,
    "mappings with two parameters": lambda name, **keys: definition(
        name, parameters=_PARAMETERS, **keys
    ),
    "mappings with a JSON Schema": lambda name, **keys: definition(
        name, parameters=_SCHEMA, **keys
    ),
    "mappings with a JSON Schema each": _varied,
    "Tool objects": tool,
}


async def sources(directory: Path) -> bool:
    """Prints the table; whether the budgets are kept."""
    await asyncio.to_thread(directory.mkdir)
    figures: dict[str, float] = {}
    for form, make in _FORMS.items():
        figures |= {
            f"{form}, {what}": took for what, took in (await _times(directory, make)).items()
        }
    report.seconds(f"A source of {MANY:,} tools, processor time", figures)
    kept = True
    for form in _BUDGETED:
        took, one = figures[f"{form}, all added"], 1000 * figures[f"{form}, one replaced"]
        kept &= report.budget(f"{form}, all added", took, ADD_BUDGET, " s")
        kept &= report.budget(f"{form}, one replaced", one, REPLACE_BUDGET, " ms")
    return kept


async def _times(directory: Path, make: Callable[..., Any]) -> dict[str, float]:
    """Seconds of work for each change of the source."""
    names = [f"tool_{number:05}" for number in range(MANY)]
    source = ListSource("own:many", [make(name) for name in names])
    async with ToolEngine(ToolEngineConfig(str(directory), auto_reload=False)) as engine:

        async def change(number: int) -> float:
            version, middle = f"1.0.{number}", MANY // 2
            # A tool is immutable, and the same object is the same tool.
            source.items = [
                each if isinstance(each, Tool) else deepcopy(each) for each in source.items
            ]
            source.items[middle] = make(names[middle], version=version)
            took = await _work_of(engine.reload)
            if engine.get_or_raise(names[middle]).version != version:
                raise AssertionError("the tool was not replaced")
            return took

        gc.collect()
        return {
            "all added": await _work_of(lambda: engine.add_source(source)),
            "one replaced": min([await change(number) for number in range(1, REPEATS + 1)]),
            "all read again": await _work_of(engine.reload),
            "all removed": await _work_of(lambda: engine.remove_source(source)),
        }


async def _work_of(work: Callable[[], Awaitable[object]]) -> float:
    started = time.process_time()
    await work()
    return time.process_time() - started
