"""What holds for calls that come without a context."""

from tool_engine import ConcurrencyConfig, ToolEngine, ToolExecutionContext


async def test_unknown_callers_may_bypass() -> None:
    """X11, C12: a call without a context has the caller type `unknown`, in the bypass set too."""
    limits = ConcurrencyConfig(
        max_concurrent=1, strategy="reject", bypass_caller_types=frozenset({"unknown"})
    )
    engine = ToolEngine(concurrency=limits)

    async def give() -> int:
        return 1

    engine.register_tool({"name": "give", "description": "Gives 1."}, give)
    slot = engine.controller.try_acquire()
    assert slot is not None
    assert (await engine.execute("give")).is_success
    direct = ToolExecutionContext(caller_type="direct")
    assert (await engine.execute("give", {}, direct)).error_type == "rejected"
    engine.controller.release(slot)
    assert (await engine.execute("give", {}, direct)).is_success
    assert engine.controller.get_metrics().total_acquired == 2
    await engine.close()
