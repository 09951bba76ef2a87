"""Where do the pictures of the strategies, and of a call's way, come from?

Those of strategies are drawn from runs of the real controller on a virtual clock. `python -m
tests.documents.pictures` draws them anew; a test compares them with what is committed.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.documents.way import draw_way
from tool_engine import ConcurrencyConfig
from tool_engine.testing import TraceCall, plot, simulate

FOLDER = Path(__file__).parents[2] / "docs" / "pictures"


def call(name: str, asked: float, seconds: float, **fields: Any) -> TraceCall:
    return TraceCall(
        call_id=name,
        tool_name=name,
        enqueued_at=asked,
        started_at=asked,
        ended_at=asked + seconds,
        **fields,
    )


def crowd() -> Iterator[TraceCall]:
    """Ann asks for twelve things at once, Bob for three a little later, Cleo for one, urgently."""
    for number in range(12):
        yield call(f"ann {number + 1}", 0.0, 2.0, key="ann")
    for number in range(3):
        yield call(f"bob {number + 1}", 0.5, 2.0, key="bob")
    yield call("cleo", 1.0, 2.0, key="cleo", priority=1)


def heavy() -> Iterator[TraceCall]:
    """Light calls keep coming; a heavy one needs all three slots."""
    for number in range(14):
        yield call(f"light {number + 1}", 0.4 * number, 1.5, key="light")
    yield call("heavy", 1.0, 1.5, key="heavy", weight=3)


def two_buckets() -> Iterator[TraceCall]:
    """Slow calls of one bucket come first, quick ones of another behind them."""
    for number in range(6):
        yield call(f"ai {number + 1}", 0.0, 4.0, bucket="ai")
    for number in range(8):
        yield call(f"http {number + 1}", 0.2, 1.0, bucket="http")


def pictures() -> dict[str, str]:
    """The text of each file in the folder."""
    drawn = {}
    for strategy in ("fifo", "priority", "fair", "reject"):
        config = ConcurrencyConfig(
            max_concurrent=3, strategy=strategy, aging_interval=2.0, queue_timeout=None
        )
        drawn[strategy] = plot(simulate(crowd(), config), by="key", title=f"strategy: {strategy}")
    three = ConcurrencyConfig(max_concurrent=3)
    drawn["weights"] = plot(
        simulate(heavy(), three), by="key", title="a heavy call is not starved by light ones"
    )
    limited = ConcurrencyConfig(max_concurrent=3, bucket_limits={"ai": 1})
    drawn["buckets"] = plot(
        simulate(two_buckets(), limited), by="bucket", title="a full bucket holds up nobody else"
    )
    drawn["way"] = draw_way()
    return {f"{name}.svg": text for name, text in drawn.items()}


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, text in pictures().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
