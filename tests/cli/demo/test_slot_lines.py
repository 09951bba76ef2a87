"""Who held which slot is drawn as it was."""

from tool_engine.cli.demo.steps import draw_slots
from tool_engine.model.call import ToolExecutionResult


def ran(wait: float, seconds: float, *, is_success: bool = True) -> ToolExecutionResult:
    metadata = {"queue_wait": wait}
    return ToolExecutionResult(is_success, "t", execution_time=seconds, metadata=metadata)


def test_each_call_stands_in_the_slot_that_was_free() -> None:
    """Of four calls in two slots one was refused; a short one makes room for the next."""
    results = [ran(0.0, 2.0), ran(0.0, 0.5), ran(0.0, 0.0, is_success=False), ran(0.5, 1.5)]
    assert draw_slots(results, 2, 16) == [
        "slot 1  ▕1██████████████",
        "slot 2  ▕2██▕4██████████",
        "        0 s        2.0 s",
    ]


def test_no_call_ran() -> None:
    assert draw_slots([], 1, 16)[0] == "slot 1  "
