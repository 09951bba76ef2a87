"""Known bugs of others: more run than may, or a count says what is not so."""

from __future__ import annotations

import asyncio

import msgspec

from tests.admission.crew import TURNS, check, controller_of
from tests.admission.known_bugs import Clamps, CountsOnResuming, Limiter, Resizable, Scene
from tool_engine.admission import ToolConcurrencyController
from tool_engine.admission.request import AdmissionRequest


def resize(limiter: ToolConcurrencyController | Resizable, limit: int) -> None:
    """Changes the number of slots of a limiter that is in use."""
    if isinstance(limiter, Resizable):
        limiter.resize(limit)
    else:
        limiter.configure(msgspec.structs.replace(limiter.config, max_concurrent=limit))


async def try_between(limiter: ToolConcurrencyController | CountsOnResuming) -> bool:
    """Whether a newcomer gets the slot that was just freed for one who waits."""
    async with Scene(limiter) as scene:
        await scene.call("holder", "waiter")
        scene.end("holder")
        taken = limiter.try_acquire()
        await scene.turn()
        assert scene.entered == ["holder", "waiter"]
        return taken is not None


async def test_anyio_1170_try_acquire_between_release_and_resumption() -> None:
    """C3 (agronholm/anyio#1170): a freed slot belongs to its waiter before the waiter has run.

    There `acquire_nowait` took it as well, and two held the only token.
    """
    assert not await try_between(controller_of(max_concurrent=1))
    assert await try_between(CountsOnResuming(1))


async def shrink_and_grow_back(limiter: ToolConcurrencyController | Resizable) -> int:
    """Two of two slots are held and two callers wait; the limit goes to 1 and to 2 again."""
    async with Scene(limiter) as scene:
        await scene.call("a", "b", "c", "d")
        resize(limiter, 1)
        resize(limiter, 2)
        await scene.turn()
        return scene.most


async def test_anyio_pr_1223_resize_over_grants() -> None:
    """C18 (agronholm/anyio PR 1223): growing wakes as many as there is room for now.

    There it woke as many as the limit grew by: after a shrink below what was held, too many.
    """
    assert await shrink_and_grow_back(controller_of(max_concurrent=2)) == 2
    assert await shrink_and_grow_back(Resizable(2)) == 3


async def test_anyio_pr_1223_shrink_kills_nobody_and_grow_wakes_the_spare() -> None:
    """C18 (agronholm/anyio PR 1223): who runs goes on; a new limit holds from then on, exactly."""
    controller = controller_of(max_concurrent=5)
    async with Scene(controller) as scene:
        await scene.call(*"abcdefghij")
        assert scene.entered == [*"abcde"]
        resize(controller, 2)
        await scene.turn()
        assert controller.get_metrics().current_concurrent == 5
        scene.end("a", "b", "c")
        await scene.turn()
        assert scene.entered == [*"abcde"]
        scene.end("d")
        await scene.turn()
        assert scene.entered == [*"abcdef"]
        resize(controller, 5)
        await scene.turn()
        assert scene.entered == [*"abcdefghi"]
        assert controller.get_metrics().current_concurrent == 5
        assert controller.get_metrics().queue_length == 1


async def test_anyio_pr_1223_grow_while_the_woken_have_not_run() -> None:
    """C3, C18 (agronholm/anyio#1170, PR 1223): slots on their way to somebody are not spare."""
    controller = controller_of(max_concurrent=2)
    async with Scene(controller) as scene:
        await scene.call(*"abcdef")
        scene.end("a", "b")
        resize(controller, 1)
        resize(controller, 3)
        await scene.turn()
        assert scene.entered == [*"abcde"]
        assert controller.get_metrics().current_concurrent == 3


async def give_back_twice(limiter: Limiter) -> list[str]:
    """Two hold the two slots; one of them gives its slot back twice, with a caller waiting."""
    async with Scene(limiter) as scene:
        await scene.call("a", "b", "c", "d")
        slot = scene.held["a"]
        scene.end("a")
        limiter.release(slot)
        await scene.turn()
        return scene.entered


async def test_kestra_16579_release_twice() -> None:
    """C9 (kestra-io/kestra#16579, PR 17759): the second end of one call gives nothing back.

    There an execution that failed was ended twice, and one more ran than may.
    """
    assert await give_back_twice(controller_of(max_concurrent=2)) == ["a", "b", "c"]
    assert await give_back_twice(Clamps(2)) == ["a", "b", "c", "d"]


async def test_kestra_pr_17759_clamped_counter_hides_the_fault() -> None:
    """C9 (kestra-io/kestra PR 17759): the counts add up, and would show it if they did not.

    A number that never goes below 0 forgets each release too many and keeps each release too few:
    below, four were inside two slots, and it ends at 0 as if nothing had been.
    """
    recipe = Clamps(2)
    assert await give_back_twice(recipe) == ["a", "b", "c", "d"]
    assert recipe.running == 0
    controller = controller_of(max_concurrent=2)
    assert await give_back_twice(controller) == ["a", "b", "c"]
    m = controller.get_metrics()
    assert (m.total_acquired, m.total_released, m.current_concurrent) == (3, 3, 0)


async def test_kestra_pr_17759_ended_before_it_ran() -> None:
    """C8, C9 (kestra-io/kestra PR 17759): a call that was let in and ended at once gives back.

    There a call's history told whether it had held a slot; one that was let in and ended before it
    ran had the history of one that was never let in.
    """
    controller = controller_of(max_concurrent=1)
    for turns in range(TURNS):
        async with Scene(controller) as scene:
            await scene.call("holder")
            scene.begin("waiter")
            await scene.turn()
            scene.end("holder")
            for _ in range(turns):
                await asyncio.sleep(0)
            scene.cancel("waiter")
            scene.end(*scene.held)
            await scene.call("late")
            assert "late" in scene.entered, turns
        check(controller)


async def test_kestra_pr_17759_ended_long_before_its_work() -> None:
    """C9, C10 (kestra-io/kestra PR 17759): a call that ended, and ends again with its work, is one.

    There the first end released nothing, because the work went on, and the second one was thrown
    away as a duplicate.
    """
    controller = controller_of(max_concurrent=1)
    async with Scene(controller) as scene:
        await scene.call("holder", "waiter")
        controller.mark_overdue(scene.held["holder"])
        await scene.turn()
        assert scene.entered == ["holder"]
        assert controller.get_metrics().zombies == 1
        scene.end("holder")
        await scene.turn()
        assert scene.entered == ["holder", "waiter"]
        assert controller.get_metrics().zombies == 0


async def test_kestra_pr_17759_fault_while_it_is_let_in() -> None:
    """C8, C9 (kestra-io/kestra PR 17759): a fault in between leaves neither a slot nor a waiter."""
    controller = controller_of(max_concurrent=1)

    def fail() -> None:
        raise OSError("the database is gone")

    async def acquire() -> object:
        request = AdmissionRequest()
        return await controller.admit(request, on_queued=fail)

    async with Scene(controller) as scene:
        await scene.call("holder")
        await scene.call("faulty", acquire=acquire)
        assert isinstance(scene.errors["faulty"], OSError)
        assert controller.get_metrics().queue_length == 0
        scene.end("holder")
        await scene.call("late")
        assert scene.entered == ["holder", "late"]
