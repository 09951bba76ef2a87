"""Is the server alive, does it take calls, and how is it doing?"""

from __future__ import annotations

import asyncio
from importlib import import_module
from typing import Any, Final

import msgspec

from tool_engine.access.problem import Problem
from tool_engine.errors import MissingExtraError
from tool_engine.server.openapi import write_description
from tool_engine.server.operation import Asked, Reply, serve_at
from tool_engine.server.problems import make_draining

_METRICS: Final = "tool_engine.observability.prometheus"
_TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"


class Health(msgspec.Struct):
    status: str


@serve_at("GET", "/healthz", scope=None, answer=Health)
async def check_health(asked: Asked) -> Any:
    """Say that the server is alive."""
    del asked
    return Health("ok")


@serve_at("GET", "/readyz", scope=None, answer=Health, errors=(503,))
async def check_readiness(asked: Asked) -> Any:
    """Say whether calls are taken: not before the tools are loaded, nor while it drains."""
    if asked.served.is_draining:
        raise make_draining()
    if not asked.engine.get_statistics()["is_loaded"]:
        raise Problem(
            503, "not-loaded", "the tools are being loaded; ask again in a moment", retry_after=1.0
        )
    return Health("ready")


@serve_at(
    "GET",
    "/metrics",
    scope="operate",
    is_of_all_tools=True,
    answer=str,
    errors=(501,),
    also={"text/plain": {"schema": {"type": "string"}}},
)
async def write_metrics(asked: Asked) -> Any:
    """Write the metrics as Prometheus reads them; they count from the first reading on."""
    served = asked.served
    if served.metrics is None:
        try:
            room = await asyncio.to_thread(import_module, _METRICS)
        except MissingExtraError as error:
            raise Problem(501, "no-metrics", str(error)) from error
        # Two first readings may come at once.
        served.metrics = served.metrics or room.instrument(asked.engine)
    written = import_module("prometheus_client").generate_latest
    text = (await asyncio.to_thread(written, served.metrics.registry)).decode()
    return Reply(text=text, headers={"content-type": _TEXT})


@serve_at(
    "GET",
    "/openapi.json",
    scope=None,
    answer=dict[str, Any],
)
async def describe_api(asked: Asked) -> Any:
    """Describe this API, as OpenAPI 3.1."""
    return Reply(data=write_description(asked.served.description, asked.root))


OPERATIONS = (check_health, check_readiness, write_metrics, describe_api)
