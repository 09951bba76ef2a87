"""What did a call spend its time on: waiting, its attempts, and the pauses between them?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

WIDTH: Final = 1000
"""Units of the picture from the first moment to the last."""
_SHORTEST: Final = 3
"""Units of what took no time that could be seen."""
_MOST_STAGES: Final = 60
_WAITS: Final = {"asking": "consent", "queued": "queue", "pausing": "pause", "sharing": "sharing"}
"""What a call does, by the state that the API shows."""
_QUESTIONS: Final = ("consent", "release")
FINAL: Final = frozenset(
    ("execution_completed", "execution_failed", "execution_cancelled", "validation_error")
)


class Stage(msgspec.Struct):
    """One thing that a call did for a while."""

    kind: str
    """`consent`, `queue`, `attempt`, `pause`, `sharing` or `release` (may its result be read)."""
    began: datetime
    ended: datetime | None = None
    """None: it goes on."""
    number: int = 0
    """Of an attempt: 1 for the first."""
    outcome: str = "running"
    """How it ended; as that of a call."""
    error_type: str | None = None
    x: int = 0
    width: int = 0
    offset: float = 0.0
    """Seconds from the first moment of the call."""
    seconds: float = 0.0


def draw_stages(
    state: Mapping[str, Any], record: Mapping[str, Any] | None, events: Sequence[Any], now: datetime
) -> list[Stage]:
    """Return what a call did, in order, with its place in the picture.

    Args:
        state: The call, as the API shows it.
        record: Its record, with its outcome; None: it has not ended.
        events: Its events that are kept, the oldest first.
        now: The moment at the right, for a call that goes on.
    """
    stages = _read_events(events)
    if record is None and not stages:
        kind = _WAITS.get(state["state"], "attempt")
        stages = [Stage(kind, now - timedelta(seconds=state["seconds"]), number=1)]
    elif record is not None:
        if not any(each.kind == "attempt" for each in stages):
            asked = [each for each in stages if each.kind in _QUESTIONS]
            stages = sorted(asked + _read_record(record), key=lambda each: each.began)
        _end_stages(stages, record)
    _place_stages(stages, now)
    return stages[:_MOST_STAGES]


def _end_stages(stages: list[Stage], record: Mapping[str, Any]) -> None:
    """End what still goes on as the record says that the call did."""
    ended = datetime.fromisoformat(record["created_at"])
    work = [each for each in stages if each.kind not in _QUESTIONS]
    for each in stages:
        if each.ended is None:
            each.ended, each.outcome = max(ended, each.began), record["outcome"]
    if work:
        work[-1].outcome, work[-1].error_type = record["outcome"], record["error_type"]


def _read_events(events: Sequence[Any]) -> list[Stage]:
    stages: list[Stage] = []

    def begin(kind: str, at: datetime, **fields: Any) -> None:
        if stages and stages[-1].ended is None:
            stages[-1].ended, stages[-1].outcome = at, "succeeded"
        stages.append(Stage(kind, at, **fields))

    for each in events:
        kind, data = each["event_type"], each["data"]
        at = datetime.fromisoformat(each["timestamp"])
        if kind == "approval_requested":
            begin("release" if data.get("kind") == "result" else "consent", at)
        elif kind == "approval_answered" and stages and stages[-1].kind in ("consent", "release"):
            stages[-1].ended = at
            stages[-1].outcome = "succeeded" if data.get("is_approved") else "rejected"
        elif kind == "execution_queued":
            begin("queue", at)
        elif kind == "execution_started":
            begin("attempt", at, number=1)
        elif kind == "execution_retried" and stages:
            _note_retry(stages, data, at)
        elif kind in FINAL and stages and stages[-1].ended is None:
            stages[-1].ended = at
            stages[-1].outcome = "succeeded" if kind == "execution_completed" else "failed"
    return stages


def _note_retry(stages: list[Stage], data: Mapping[str, Any], at: datetime) -> None:
    """End the attempt that failed, and begin the next one behind its pause."""
    failed, delay = stages[-1], float(data.get("delay") or 0.0)
    failed.ended = max(failed.began, at - timedelta(seconds=delay))
    failed.error_type = data.get("error_type")
    failed.outcome = "timeout" if failed.error_type == "timeout" else "failed"
    if delay > 0:
        stages.append(Stage("pause", failed.ended, at, outcome="succeeded"))
    stages.append(Stage("attempt", at, number=int(data.get("attempt") or 0)))


def _read_record(record: Mapping[str, Any]) -> list[Stage]:
    """Return what a record alone says: how long it waited, and how long it ran."""
    ended = datetime.fromisoformat(record["created_at"])
    began = ended - timedelta(seconds=record["execution_time"])
    stages = []
    outcome = record["outcome"]
    if record["queue_wait"] > 0:
        asked = began - timedelta(seconds=record["queue_wait"])
        how = "succeeded" if record["reached_executor"] else outcome
        stages.append(Stage("queue", asked, began, outcome=how))
    if record["reached_executor"]:
        run = Stage("attempt", began, ended, outcome=outcome, error_type=record["error_type"])
        run.number = 1 if record["attempts"] == 1 else 0
        stages.append(run)
    return stages


def _place_stages(stages: list[Stage], now: datetime) -> None:
    if not stages:
        return
    start = min(each.began for each in stages)
    end = max(each.ended or max(now, each.began) for each in stages)
    whole = max((end - start).total_seconds(), 1e-6)
    for each in stages:
        stop = each.ended or max(now, each.began)
        each.offset = (each.began - start).total_seconds()
        each.seconds = max(0.0, (stop - each.began).total_seconds())
        left = min(WIDTH - _SHORTEST, round(each.offset / whole * WIDTH))
        each.x = left
        each.width = min(WIDTH - left, max(_SHORTEST, round(each.seconds / whole * WIDTH)))
