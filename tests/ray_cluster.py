"""A real Ray cluster for tests, and what skips them where there is no Ray."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from importlib.util import find_spec

import pytest

from tests.ray_nodes import (
    AS_OTHERS,
    MEMORY,
    RayCluster,
    is_alive,
    read_command,
    start_cluster,
    tree_of,
)

__all__ = [
    "AS_OTHERS",
    "MEMORY",
    "RayCluster",
    "is_alive",
    "needs_ray",
    "ray_cluster",
    "read_command",
    "running_cluster",
    "tree_of",
]

needs_ray = pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed: make ray")


@contextlib.contextmanager
def running_cluster(nodes: int) -> Iterator[RayCluster]:
    """A cluster of so many nodes with one processor each; skips the test without Ray."""
    if find_spec("ray") is None:
        pytest.skip("Ray is not installed: make ray")
    made = start_cluster(nodes)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture(scope="session")
def ray_cluster() -> Iterator[RayCluster]:
    """Three nodes, for all tests of a session that take or kill one."""
    with running_cluster(3) as made:
        yield made
