"""Settings for one reply allow no more than the conversation's, field by field. A38."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.session.catalogs import definition, engine_over, group, write
from tests.session.test_replies import kinds, vcp
from tool_engine import ToolCallConfig, ToolEngine, ToolExecutionContext, ToolSession
from tool_engine.session.narrowing import HOW

STRICT: Final[dict[str, tuple[Any, Any]]] = {
    "enabled": (False, True),
    "mode": ("manual", "auto"),
    "tool_toggles": ({"see": False}, {"see": True}),
    "default_tool_enabled": (False, True),
    "timeout": (2.0, 9.0),
    "require_confirmation": (True, False),
    "parallel_execution": (False, True),
    "group_toggles": ({"pages": False}, {"pages": True}),
    "default_group_enabled": (False, True),
    "permission": ("deny", "auto"),
    "group_permissions": ({"pages": "deny"}, {"pages": "auto"}),
    "tool_permissions": ({"see": "deny"}, {"see": "auto"}),
    "rules": ({"see": "deny"}, {"see": "auto"}),
    "limit": (60, 900),
    "tool_limits": ({"see": 60}, {"see": 900}),
    "show": ("none", "full"),
    "tool_show": ({"see": "summary"}, {"see": "full"}),
    "max_calls_per_turn": (1, 99),
    "max_calls": (1, 99),
    "max_uses": ({"see": 1}, {"see": 99}),
    "max_tokens": (1, 99),
}
"""Setting -> a value that takes something away, and one that does not."""
OF_THE_CONVERSATION: Final = {
    *("max_iterations", "approval_timeout", "capacity", "max_seconds", "hint_at", "stop_at"),
}
OF_WORDS: Final = {"protocol", "language", "toggles_by_tool_id"}


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[ToolEngine]:
    write(tmp_path, group("pages", tools=["see"], enabled=True))
    async with asyncio.timeout(20.0), engine_over(tmp_path) as engine:
        yield engine


async def effect(engine: ToolEngine, own: dict[str, Any], config: Any) -> tuple[Any, ...]:
    """What of three calls becomes, with the time and the company that each of them has."""
    running, seen = 0, []

    async def see(text: str, context: ToolExecutionContext, count: int = 0) -> str:
        nonlocal running
        running += 1
        for _ in range(4):
            await asyncio.sleep(0)
        seen.append((running, context.timeout))
        running -= 1
        return text * 100

    if engine.get("see") is not None:
        engine.unregister_tool("see")
    tool = definition("see", timeout=5) | {"entry": {"type": "custom", "handler": "see"}}
    engine.register_tool(tool, see)
    session = ToolSession(engine, "s", own)
    session.meter.add_tokens({"input_tokens": 7})
    cycle = await session.process_cycle(vcp("see", "see", "see", text="hi"), config)
    has_run = [kind is None for kind in kinds(cycle)]
    results = cycle.execution_results if all(has_run) else []
    # Which of them comes first is for none to say.
    return sorted(has_run), [len(each.final_text) for each in results], seen  # type: ignore[attr-defined]


def test_every_setting_is_looked_at() -> None:
    """A new one has to say what holds for a reply; see `STRICT` for whether it does."""
    assert set(HOW) == set(ToolCallConfig.__struct_fields__)
    assert set(HOW) == STRICT.keys() | OF_THE_CONVERSATION | OF_WORDS


@pytest.mark.parametrize("name", STRICT)
async def test_the_stricter_word_holds(engine: ToolEngine, name: str) -> None:
    """Left out, it is the session's; said, it is the stricter one, in whatever form it is said."""
    strict, loose = ({name: value} for value in STRICT[name])
    expected = await effect(engine, strict, None)
    assert expected != await effect(engine, loose, None), "the value takes something away"
    for own, config in (
        (strict, {}),
        (strict, loose),
        (strict, ToolCallConfig.from_dict(loose)),
        (loose, strict),
        (loose, ToolCallConfig.from_dict(strict)),
    ):
        assert await effect(engine, own, config) == expected, (own, config)


async def test_what_is_left_out_is_no_stricter_either(engine: ToolEngine) -> None:
    """What the session allows beyond the defaults holds where the settings say nothing of it."""
    free = {"group_toggles": {"pages": True}, "rules": {"see": "auto"}, "max_calls_per_turn": 2}
    own = {**free, "permission": "deny", "default_group_enabled": False}
    assert await effect(engine, own, {"max_calls": 99}) == await effect(engine, own, None)


async def test_a_looser_word_does_not_undo_a_stricter_one(engine: ToolEngine) -> None:
    """The session's word on one tool goes before its own default, and not before the reply's."""
    for own, said in (
        ({"rules": {"see": "auto"}}, {"permission": "deny"}),
        ({"tool_toggles": {"see": True}}, {"default_tool_enabled": False}),
        ({"tool_toggles": {"see": True}}, {"group_toggles": {"pages": False}}),
        ({"group_toggles": {"pages": True}}, {"default_group_enabled": False}),
    ):
        has_run, *_ = await effect(engine, own, said)
        assert not any(has_run), (own, said)
