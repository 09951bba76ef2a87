"""Which settings of a conversation are about tools and groups that are not there?"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.session.catalogs import definition, engine_over, group, write
from tool_engine.engine import ToolEngine
from tool_engine.session.config import ToolCallConfig
from tool_engine.session.session import ToolSession
from tool_engine.session.toolbox.toolbox import Toolbox
from tool_engine.sources.composition import prefix, rename


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[ToolEngine]:
    write(tmp_path, definition("web_read"), definition("post"), group("web", tools=["web_read"]))
    async with engine_over(tmp_path) as engine:
        yield engine


def findings(source: Any, **fields: Any) -> list[str]:
    return ToolSession(source, "s", ToolCallConfig(**fields)).findings


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("tool_toggles", {"pots": False}),
        ("tool_permissions", {"pots": "deny"}),
        ("tool_limits", {"pots": 5}),
        ("tool_show", {"pots": "none"}),
        ("max_uses", {"pots": 1}),
        ("rules", {"pots:text=*::SilentReject": "deny"}),
    ],
)
async def test_a_misspelled_tool(engine: ToolEngine, setting: str, value: Any) -> None:
    """A tool that somebody believes to be off or bounded is told of, with the nearest. A7."""
    (found,) = findings(engine, **{setting: value})
    assert found.startswith(setting)
    assert "no tool 'pots' in this conversation; did you mean 'post'?" in found


async def test_many_misspelled_names(engine: ToolEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is told of; for the first ten the nearest is looked for, which takes its time."""
    looked: list[str] = []

    def likely(box: Toolbox, name: str) -> set[str]:
        looked.append(name)
        return {"post"}

    monkeypatch.setattr(Toolbox, "_find_likely", likely)
    found = findings(engine, tool_toggles={f"post_{number}": False for number in range(30)})
    assert len(found) == 30
    assert sum("did you mean 'post'" in each for each in found) == len(looked) == 10


@pytest.mark.parametrize("setting", ["group_toggles", "group_permissions"])
async def test_a_misspelled_group(engine: ToolEngine, setting: str) -> None:
    """So is a group, also one whose file was removed or renamed. S22."""
    value = {"webb": True if setting == "group_toggles" else "deny"}
    (found,) = findings(engine, **{setting: value})
    assert found == (
        f"{setting}['webb']: there is no group 'webb' in this conversation; did you mean 'web'?"
    )


async def test_names_that_are_there(engine: ToolEngine) -> None:
    """Names of tools, on or off, of the conversation's own, and where they come from; globs."""
    fields: dict[str, Any] = {
        "tool_toggles": {"post": False, "read_var": False},
        "rules": {"po*": "deny", "web_read": "auto"},
        "group_toggles": {"web": True},
    }
    assert findings(engine, **fields) == []
    view = rename(prefix(engine, "a_"), {"a_post": "send"})
    told = {**fields, "group_toggles": {"a_web": True}, "tool_toggles": {"send": True}}
    assert findings(view, **told) == []
    assert findings(view, tool_permissions={"post": "deny"}) == []
    owners = ToolCallConfig.from_dict({"toolToggles": {"web": False, "post": True}})
    assert ToolSession(engine, "s", owners).findings == []
    assert findings(engine, tool_toggles={"web": False}) != [], "only where toggles are of toolIds"


async def test_names_in_between(engine: ToolEngine) -> None:
    """A name that a view has on the way is nobody's; that of the engine is none for toggles."""
    view = rename(prefix(engine, "a_"), {"a_post": "send"})
    fields: dict[str, Any] = {"rules": {"a_post": "deny"}, "tool_toggles": {"post": False}}
    assert len(findings(view, **fields)) == 2
    assert (await ToolSession(view, "s", fields).execute("send", {"text": "x"})).is_success
    bounded = ToolSession(view, "s", {"max_uses": {"post": 1}})
    assert [(await bounded.execute("send", {"text": "x"})).is_success for _ in "12"] == [
        True,
        False,
    ]
    assert bounded.findings == []
