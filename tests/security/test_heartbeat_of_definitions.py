"""Do all other calls go on while thousands of tools are described to a model?"""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from tests.effort import IS_WHOLE
from tests.security.heartbeat import assert_beats_on
from tool_engine import ToolEngine, ToolEngineConfig
from tool_engine.protocols.definition_formats import FORMATS

pytestmark = pytest.mark.beats

MANY = 10_000
CONFIG = ToolEngineConfig(auto_reload=False, tools_directory="none")


def define(number: int) -> dict[str, Any]:
    listed = [
        {"name": f"p{at}", "type": "string", "description": f"The text {at} of tool {number}"}
        for at in range(3)
    ]
    return {"name": f"tool_{number}", "description": f"Number {number}.", "parameters": listed}


@pytest.mark.parametrize("format_name", FORMATS if IS_WHOLE else ("gemini",))
async def test_definitions_of_thousands(format_name: str) -> None:
    """P6: made anew after a change, and read again without one."""
    engine = ToolEngine(CONFIG)
    engine.register_tools([(define(number), lambda **others: 0) for number in range(MANY)])
    numbers = count(MANY)

    async def ask() -> None:
        engine.register_tool(define(next(numbers)), lambda **others: 0)
        made = await engine.read_definitions(format_name)
        again = await engine.read_definitions(format_name)
        assert made == again

    try:
        await assert_beats_on(ask)
    finally:
        await engine.close()
