"""Virtual time: what comes late here comes at once on the clock of the wall."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import pytest

from tests.calls.virtual_loop import VirtualLoop


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    del config, item
    return {"virtual": VirtualLoop}
