"""Which call held which slot, as a line of letters for each slot?"""

from __future__ import annotations

from collections.abc import Sequence

from tool_engine.model.call import ToolExecutionResult


def draw_slots(results: Sequence[ToolExecutionResult], slots: int, width: int) -> list[str]:
    """Return a line for each slot, in which calls stand as long as they held it.

    Args:
        results: Those of calls that came at the same time, in their order; their numbers are drawn.
        slots: How many there are.
        width: The columns of the whole time.
    """
    held: list[list[tuple[float, float, int]]] = [[] for _ in range(slots)]
    spans = [
        (wait := float(result.metadata.get("queue_wait") or 0.0), wait + result.execution_time, at)
        for at, result in enumerate(results, 1)
        if result.is_success
    ]
    for span in sorted(spans, key=lambda span: (span[0], span[2])):
        min(held, key=lambda line: line[-1][1] if line else 0.0).append(span)
    end = max((stop for _, stop, _ in spans), default=0.0) or 1.0
    lines = []
    for number, line in enumerate(held, 1):
        text = ""
        for start, stop, at in line:
            text = text.ljust(round(start / end * width))
            text += f"▕{at}".ljust(round(stop / end * width) - len(text), "█")
        lines.append(f"slot {number}  {text}")
    return [*lines, f"        0 s{f'{end:.1f} s':>{max(1, width - 3)}}"]
