from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.calls.audit import check_idle
from tool_engine import ConcurrencyConfig, ToolEngine, ToolEngineConfig


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[ToolEngine]:
    """An engine without tools and a bucket `narrow`, which holds nothing when a test has ended."""
    config = ToolEngineConfig(tools_directory=str(tmp_path), auto_reload=False)
    limits = ConcurrencyConfig(bucket_limits={"narrow": 1})
    async with ToolEngine(config, concurrency=limits) as engine:
        yield engine
        check_idle(engine)
