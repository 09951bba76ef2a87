"""Virtual time for every test here but those of terminals, threads and databases."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import pytest

from tests.calls.virtual_loop import VirtualLoop


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    if any(word in item.path.stem for word in ("console", "thread", "kept")):
        return {"real": asyncio.new_event_loop}
    return {"virtual": VirtualLoop}
