"""How does an engine come to limits that it shares with other processes?"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any, Final

from tool_engine.admission.controller import ToolConcurrencyController
from tool_engine.config import ConcurrencyConfig
from tool_engine.errors import MissingExtraError
from tool_engine.model.settings.cluster import ClusterConfig

_ROOM: Final = "tool_engine.admission.cluster"
_LONGEST_NAME: Final = 100


def make_cluster_controller(
    config: ConcurrencyConfig, cluster: ClusterConfig, process: str, clock: Callable[[], float]
) -> ToolConcurrencyController:
    """Return a controller that shares limits; it connects when it is opened, or first asked.

    Args:
        config: The limits of this process.
        cluster: Those that it shares.
        process: The name of this process.
        clock: Seconds, monotonic.

    Raises:
        MissingExtraError: The library for it is not installed.
    """
    try:
        controllers = import_module(f"{_ROOM}.controller")
        member = import_module(f"{_ROOM}.member").ClusterMember
    except ModuleNotFoundError as error:
        if error.name != "asyncpg":
            raise
        raise MissingExtraError(
            "limits of a cluster need PostgreSQL: pip install 'tool-engine[postgres]'"
        ) from error
    limits = import_module(f"{_ROOM}.cluster_limits").limits_of(config, cluster)
    # Names are for people: two processes may have the same one, and a long one is cut.
    shown = process[:_LONGEST_NAME].encode(errors="replace").decode().replace("\0", "?")
    unique = f"{shown}#{secrets.token_hex(4)}"
    made: Any = controllers.ClusterController(
        config,
        member(
            partial(_find_url, str(cluster.url)),
            cluster.name,
            unique,
            limits,
            grace=cluster.session_grace,
            ttl=cluster.lease_ttl,
            idle_time=cluster.idle_time,
            on_unavailable=cluster.on_unavailable,
        ),
        clock=clock,
    )
    return made  # type: ignore[no-any-return]


def _find_url(url: str) -> str:
    # By name: without records in a database nothing else of that room is loaded.
    address = import_module("tool_engine.knowledge.sql.connection.address")
    filled: str = address.fill_secrets(url, "cluster")
    return filled
