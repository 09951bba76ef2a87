"""What do pages show while records cannot be read?"""

from __future__ import annotations

from typing import Any

import pytest

from tests.studio.conftest import Browser
from tool_engine import ToolEngine
from tool_engine.errors import RecordsUnavailableError

WHY = "the records in calls.db cannot be read"


@pytest.fixture
def broken(engine: ToolEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A database that answers no question."""

    async def fail(*_: Any, **__: Any) -> Any:
        raise RecordsUnavailableError(WHY)

    monkeypatch.setattr(engine, "query_call_records", fail)
    monkeypatch.setattr(engine.store, "get_call_statistics", fail)


@pytest.mark.usefixtures("broken")
@pytest.mark.parametrize(
    ("path", "shows"),
    [
        ("/", "Running 0 / "),
        ("/live/timeline", ""),
        ("/tools", "endless"),
        ("/tools/add", "Add two numbers."),
        ("/tester?tool=add", "Run"),
    ],
)
async def test_what_does_not_need_them_is_shown(olga: Browser, path: str, shows: str) -> None:
    """An operator needs it most then; the page says what it lacks."""
    shown = await olga.open("/studio" + path)
    assert shown.status == 200
    assert shows in shown.words
    assert WHY in shown.words


@pytest.mark.usefixtures("broken")
async def test_a_call_shows_its_result(olga: Browser) -> None:
    await olga.open("/studio/tester?tool=add")
    fields = {"tool": "add", "mode": "json", "arguments": '{"a": 1, "b": 2}'}
    shown = await olga.send("/studio/tester/run", fields, hx_request="true")
    assert "succeeded" in shown.words
    assert WHY in shown.words
