"""Virtual time for every test of workflows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from tests.calls.virtual_loop import VirtualLoop


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """No deadline here waits for a clock."""
    return {"virtual": VirtualLoop}
