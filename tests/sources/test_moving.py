"""X3: a kept conversation tells its engines apart, in whatever order they are put together."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.session.catalogs import definition, write
from tool_engine import ToolEngine, ToolEngineConfig
from tool_engine.session.session import ToolSession
from tool_engine.sources.composition import combine, prefix
from tool_engine.sources.moving import Moves

TEXT = "The quarterly figures are forty two thousand and eleven, as was expected by everyone."
LABEL = "tool:good effect:read"


async def _engine(folder: Path, stack: AsyncExitStack, **settings: Any) -> ToolEngine:
    write(folder, definition("post", accepts=["tool:good"], max_uses=1))
    config = ToolEngineConfig(str(folder), auto_reload=False, **settings)
    engine = await stack.enter_async_context(ToolEngine(config))

    @engine.tool(effect="read")
    async def good() -> str:
        """Gives figures."""
        return TEXT

    return engine


@pytest.mark.parametrize("names", [("test", "live"), (None, None)])
async def test_labels_and_uses_stay_with_their_engines(tmp_path: Path, names: Any) -> None:
    """What came from one engine's tool is not another one's, nor are its calls."""
    async with AsyncExitStack() as stack:
        test, live = [
            await _engine(tmp_path / str(at), stack, name=name) for at, name in enumerate(names)
        ]
        session = ToolSession(combine(prefix(test, "t_"), prefix(live, "l_")), "s")
        await session.execute("t_good")
        kept = session.to_dict()
        swapped = combine(prefix(live, "l_"), prefix(test, "t_"))
        for tools in (swapped, combine(prefix(live, "l_"))):
            refused = await ToolSession.from_dict(kept, tools).execute("l_post", {"text": TEXT})
            assert refused.error_type == "execution_rejected"
        session = ToolSession.from_dict(kept, swapped)
        assert (await session.execute("t_post", {"text": TEXT})).is_success
        again = combine(prefix(test, "t_"), prefix(live, "l_"))
        session = ToolSession.from_dict(session.to_dict(), again)
        assert (await session.execute("t_post", {"text": "x"})).reject_reason == "max_uses_reached"
        # It has uses left, and yet what was read is of the other engine.
        other = await session.execute("l_post", {"text": "x"})
        assert "and so what you type, must not be sent to the tool 'l_post'" in str(other.error)


def test_places() -> None:
    """What is gone is at no place; its calls go on to count where they did."""
    moves = Moves(["a", "b", "c"], ["b", "a"])
    assert moves
    assert not Moves(["a", "b"], ["a", "b", "c"])
    assert not Moves([], ["a"])
    assert moves.labels([LABEL, "user", "tool:source-2:good", "tool:source-3:good"]) == {
        "tool:source-2:good effect:read",
        "user",
        "tool:good",
        "tool:source-0:good",
    }
    uses = {"run": 1, "run of source 2": 2, "run of source 3": 3, "own of the session": 4}
    moved = {"run of source 2": 1, "run": 2, "run of source 3": 3, "own of the session": 4}
    assert moves.uses(uses) == moved
    assert Moves(["a", "b"], ["b"]).uses({"run": 2, "run of source 2": 1}) == {"run": 2}
