"""Who may change what is in use? The pool, and two methods of the controller; views only read."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tool_engine.admission import ToolConcurrencyController
from tool_engine.admission.pool import SlotPool
from tool_engine.admission.request import AdmissionRequest

ROOM = Path(__file__).parents[2] / "tool_engine" / "admission"
SUMS = set(SlotPool.__slots__) - {"announcer", "config", "gate", "layout", "queue"}
CHANGING = {"add", "append", "clear", "discard", "pop", "remove", "update"}
WRITTEN_OUT = {"admit_nowait", "release", "drain"}
"""The methods of the controller: two that every call passes, and one that adds to those waiting."""


def changes(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """The attributes of a pool that functions change, by function."""
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for node in ast.walk(function):
            targets: list[ast.expr] = []
            if isinstance(node, ast.Assign):
                targets = node.targets
            elif isinstance(node, ast.AugAssign):
                targets = [node.target]
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                targets = [node.func.value] if node.func.attr in CHANGING else []
            for target in targets:
                if isinstance(target, ast.Attribute) and _is_pool(target.value):
                    yield function.name, target.attr


def _is_pool(node: ast.expr) -> bool:
    name = node.id if isinstance(node, ast.Name) else getattr(node, "attr", "")
    return name in ("pool", "_pool")


@pytest.mark.parametrize("file", sorted(ROOM.glob("*.py")), ids=lambda file: str(file.name))
def test_where_sums_are_changed(file: Path) -> None:
    """C14: what is in use is changed in one room, and where that is written out."""
    found = {(name, attr) for name, attr in changes(ast.parse(file.read_text())) if attr in SUMS}
    allowed = WRITTEN_OUT if file.name == "controller.py" else set()
    assert {name for name, _ in found} <= allowed, found


def test_views_change_nothing() -> None:
    """C25: no line of the views sets anything but what they are made of."""
    tree = ast.parse((ROOM / "view.py").read_text())
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef) and function.name != "__init__":
            for node in ast.walk(function):
                if isinstance(node, ast.Assign | ast.AugAssign):
                    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                    assert not any(isinstance(each, ast.Attribute) for each in targets)


def test_a_look_from_the_first_step_of_a_tool() -> None:
    """C25: a call that is on no list sees itself, and is on none afterwards either."""
    controller = ToolConcurrencyController()
    slot = controller.admit_nowait(AdmissionRequest("http", lane="http"), None, "call-1")

    class Engine:
        def current_slot(self) -> Any:
            return slot

        def leader_of(self, call_id: str) -> str | None:
            return None

        def explain_lost(self, call_id: str) -> str | None:
            return None

        def explain_place(self, call_id: str) -> str:
            return ""

        def forget_plans(self) -> None:
            pass

        def end_lost(self, slots: Any) -> None:
            pass

        def note_limit(self, facts: dict[str, Any]) -> None:
            pass

    assert controller.snapshot().held == []
    controller.attach(Engine())
    for _ in range(2):
        assert [each.call_id for each in controller.snapshot().held] == ["call-1"]
        assert controller.explain("call-1").state == "running"
        assert not controller._pool.held
