"""Is half of a surrogate pair, wherever a program puts it, a typed error or a text?

Looked at: the fields of all settings, and what is restored from data of one's own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.calls.audit import make_engine
from tool_engine import (
    ConcurrencyConfig,
    ToolCallConfig,
    ToolEngineConfig,
    ToolExecutionContext,
    Variable,
)
from tool_engine.errors import ToolEngineError
from tool_engine.model.approval import ApprovalDecision
from tool_engine.model.permission import Permission
from tool_engine.model.result import ResultLimits
from tool_engine.model.settings.concurrency import BreakerPolicy, ToolConcurrency, ToolRate
from tool_engine.model.settings.retention import RecordRetention
from tool_engine.model.tool import RetryPolicy
from tool_engine.protocols.cycle_options import CycleOptions
from tool_engine.session.reading.presentation import Presentation
from tool_engine.session.toolbox.toolbox import Toolbox
from tool_engine.session.variables.store import VariableStore

HALF = "\ud800"
VALUES: tuple[Any, ...] = (HALF, [HALF], {HALF: 1}, {"a": HALF}, {"a": {HALF: [HALF]}})
NEEDED: dict[type, dict[str, Any]] = {
    ToolEngineConfig: {},
    ConcurrencyConfig: {},
    ToolCallConfig: {},
    CycleOptions: {},
    Presentation: {},
    Permission: {},
    ResultLimits: {},
    RecordRetention: {},
    ToolConcurrency: {},
    BreakerPolicy: {},
    ToolExecutionContext: {},
    RetryPolicy: {"attempts": 2},
    ToolRate: {"calls": 1, "period": 1.0},
    Variable: {"name": "a", "value": 1},
    ApprovalDecision: {"is_approved": True},
}
FIELDS = [
    (kind, field)
    for kind in NEEDED
    for field in kind.__struct_fields__  # type: ignore[attr-defined]
    if not field.startswith("_")
]


def made_or_refused(kind: type, fields: dict[str, Any]) -> object:
    """The setting, or the words of its typed error; anything else goes up."""
    try:
        return kind(**fields)
    except ToolEngineError as error:
        return str(error)


@pytest.mark.parametrize(
    ("kind", "field"), FIELDS, ids=[f"{kind.__name__}.{field}" for kind, field in FIELDS]
)
def test_a_setting(kind: type, field: str) -> None:
    """A setting takes it, or says what is wrong in words that can be written down."""
    for value in VALUES:
        made = made_or_refused(kind, {**NEEDED[kind], field: value})
        assert isinstance(made, kind) or str(made).encode()


@pytest.mark.parametrize("place", ["toolbox", "variables", "group", "key"])
def test_what_is_restored(place: str) -> None:
    """Data that nothing of the engine has written is refused as such."""
    engine = make_engine()
    toolbox = Toolbox(engine)
    restore: dict[str, Callable[[], object]] = {
        "toolbox": lambda: toolbox.restore(
            {"tool_toggles": HALF, "group_toggles": {}, "groups": []}
        ),
        "variables": lambda: VariableStore.from_dict({"capacity": HALF}),
        "group": lambda: toolbox.register_group({"name": "a", "tools": HALF}),
        "key": lambda: engine.register_tool({"name": "a", "description": "d", HALF: 1}),
    }
    with pytest.raises(ToolEngineError):
        restore[place]()
