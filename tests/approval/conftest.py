"""Virtual time for every test here but those of terminals and threads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import pytest

from tests.calls.virtual_loop import VirtualLoop


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    if "console" in item.path.stem or "thread" in item.path.stem:
        return {"real": asyncio.new_event_loop}
    return {"virtual": VirtualLoop}
