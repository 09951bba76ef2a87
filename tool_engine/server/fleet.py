"""What does an operator see of the fleet that tools run on?"""

from __future__ import annotations

from typing import Any

from tool_engine.access.problem import Problem
from tool_engine.executors.fleet.looking import FleetSnapshot
from tool_engine.server.operation import Asked, serve_at


@serve_at(
    "GET",
    "/v1/fleet",
    scope="operate",
    is_of_all_tools=True,
    answer=FleetSnapshot,
    errors=(404,),
)
async def get_fleet(asked: Asked) -> Any:
    """Show the machines that tools run on, the workers of each tool, and the calls on their way."""
    if asked.engine.fleet is None:
        raise Problem(404, "no-fleet", "the engine has no fleet; set `fleet` in its settings")
    return asked.engine.fleet.snapshot()


OPERATIONS = (get_fleet,)
