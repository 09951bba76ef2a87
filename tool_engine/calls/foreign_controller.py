"""What becomes of calls whose controller breaks its contract?

A foreign controller may raise where it must not, or return what is no slot. The call that
meets it ends with a result and a record, and no other one is held up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from types import NoneType
from typing import Any, Final, TypeVar

from tool_engine.admission.controller import ToolConcurrencyController
from tool_engine.config import ConcurrencyConfig, ToolEngineConfig
from tool_engine.errors import AdmissionError, ConfigurationError, ToolEngineError
from tool_engine.interfaces import AdmissionController, AdmissionUser, Slot
from tool_engine.interfaces.admission_view import ConcurrencySnapshot, WaitExplanation
from tool_engine.interfaces.checking import check_part
from tool_engine.interfaces.metrics import ConcurrencyMetrics
from tool_engine.logger import get_logger
from tool_engine.model.foreign import ends_caller
from tool_engine.model.json.plain import name_of
from tool_engine.redaction import words_of

_T = TypeVar("_T")
_HEAD_START: Final = 0.25
"""Seconds that a controller gets to say itself that the time is over."""
_LEAVING: Final = 5.0
"""Seconds that a controller gets to let go of everything."""
_OF_EACH_BUCKET: Final = ("current", "limit", "queue", "utilization")
"""Figures that `AdmissionController.get_bucket_metrics` promises of each bucket."""
_log: Final = get_logger(__name__)


class ForeignController(AdmissionController):
    """Asks another controller, and keeps what it raises from the calls.

    Where it has to answer, a failure is an `AdmissionError`; where it only receives a fact, it is
    logged as `controller_failed`, and the call goes on.

    Args:
        controller: The other one.
    """

    def __init__(self, controller: AdmissionController) -> None:
        self._inner = controller
        found: object = controller.config
        if not isinstance(found, ConcurrencyConfig):
            raise ConfigurationError(
                f"config of the controller {name_of(controller)} must be a ConcurrencyConfig, got "
                f"{name_of(found)}"
            )
        self._config = found

    @property
    def config(self) -> ConcurrencyConfig:
        found: object = self._ask_inner(lambda: self._inner.config, self._config, "config")
        if isinstance(found, ConcurrencyConfig):
            self._config = found
        else:
            self._note_failure(
                "config", TypeError(f"it is a {name_of(found)}, no ConcurrencyConfig")
            )
        return self._config

    async def admit(
        self,
        request: Any,
        on_queued: Callable[[], None] | None = None,
        call_id: str | None = None,
    ) -> Slot:
        try:
            slot = await self._inner.admit(request, on_queued, call_id)
        except AdmissionError:
            raise
        except BaseException as error:
            if ends_caller(error):
                raise
            raise self._make_refusal("admit", error) from error
        return self._check_slot("admit", slot)

    def admit_nowait(
        self, request: Any, now: float | None = None, call_id: str | None = None
    ) -> Slot | None:
        # What it raises here it is asked again by `admit`, where it can say why.
        slot = self._ask_inner(
            lambda: self._inner.admit_nowait(request, now, call_id), None, "admit_nowait"
        )
        try:
            return None if slot is None else self._check_slot("admit_nowait", slot)
        except AdmissionError:
            return None

    def release(
        self, slot: Any, now: float | None = None, *, outcome: bool | None = True
    ) -> bool | None:
        return self._ask_inner(
            lambda: self._inner.release(slot, now, outcome=outcome), None, "release"
        )

    def mark_overdue(self, slot: Any, outcome: bool | None = False) -> None:
        self._ask_inner(lambda: self._inner.mark_overdue(slot, outcome), None, "mark_overdue")

    def close(self) -> None:
        self._ask_inner(self._inner.close, None, "close")

    async def drain(self, timeout: float | None = None) -> bool:  # noqa: ASYNC109 - as there
        try:
            async with asyncio.timeout(None if timeout is None else timeout + _HEAD_START):
                return await self._inner.drain(timeout)
        except BaseException as error:  # the engine has more to close
            if ends_caller(error):
                raise
            self._note_failure("drain", error)
            return False

    async def open(self) -> None:
        await self._inner.open()

    async def leave(self) -> None:
        try:
            async with asyncio.timeout(_LEAVING):
                await self._inner.leave()
        except BaseException as error:  # the engine has more to close
            if ends_caller(error):
                raise
            self._note_failure("leave", error)

    def get_metrics(self) -> ConcurrencyMetrics:
        return self._read_figures("get_metrics", self._inner.get_metrics, _check_metrics)

    def park(self, slot: Any) -> None:
        self._ask_inner(lambda: self._inner.park(slot), None, "park")

    async def unpark(self, slot: Any) -> None:
        try:
            await self._inner.unpark(slot)
        except BaseException as error:  # the call's tool goes on
            if ends_caller(error):
                raise
            self._note_failure("unpark", error)

    def unpark_nowait(self, slot: Any) -> None:
        self._ask_inner(lambda: self._inner.unpark_nowait(slot), None, "unpark_nowait")

    def stay_parked(self, slot: Any) -> None:
        self._ask_inner(lambda: self._inner.stay_parked(slot), None, "stay_parked")

    def attach(self, user: AdmissionUser) -> None:
        self._inner.attach(user)

    def pause_bucket(self, name: str, seconds: float) -> None:
        self._ask_inner(lambda: self._inner.pause_bucket(name, seconds), None, "pause_bucket")

    def note_overload(self, slot: Any) -> None:
        self._ask_inner(lambda: self._inner.note_overload(slot), None, "note_overload")

    def explain_shut(self) -> str | None:
        return self._ask_inner(self._inner.explain_shut, None, "explain_shut", (str, NoneType))

    def pause_left(self, bucket: str) -> float:
        kinds = (int, float)
        return self._ask_inner(lambda: self._inner.pause_left(bucket), 0.0, "pause_left", kinds)

    def tools_in_line(self) -> Iterable[str]:
        return self._ask_inner(lambda: tuple(self._inner.tools_in_line()), (), "tools_in_line")

    def adopt(self, requests: Iterable[Any]) -> None:
        self._ask_inner(lambda: self._inner.adopt(requests), None, "adopt")

    def watch(self, slot: Any) -> None:
        self._ask_inner(lambda: self._inner.watch(slot), None, "watch")

    def count_timeout(self) -> None:
        self._ask_inner(self._inner.count_timeout, None, "count_timeout")

    def get_bucket_metrics(self) -> dict[str, dict[str, Any]]:
        ask = self._inner.get_bucket_metrics
        return self._read_figures("get_bucket_metrics", ask, _check_buckets)

    def snapshot(self) -> ConcurrencySnapshot:
        return self._read_figures("snapshot", self._inner.snapshot, _check_snapshot)

    def explain(self, call_id: str) -> WaitExplanation:
        unknown = WaitExplanation(call_id, "unknown", reason="its controller does not answer")
        kinds = (WaitExplanation,)
        return self._ask_inner(lambda: self._inner.explain(call_id), unknown, "explain", kinds)

    def pause(self) -> None:
        self._inner.pause()

    def resume(self) -> None:
        self._inner.resume()

    def configure(self, config: ConcurrencyConfig) -> None:
        self._inner.configure(config)

    def _ask_inner(
        self, ask: Callable[[], _T], otherwise: _T, method: str, kinds: tuple[type, ...] = ()
    ) -> _T:
        """Return the answer; `otherwise` if asking fails, or it is of none of the `kinds`."""
        try:
            found = ask()
            if kinds and not isinstance(found, kinds):
                raise _make_misfit(found, kinds[0].__name__)
        except BaseException as error:  # foreign code
            if ends_caller(error):
                raise
            self._note_failure(method, error)
            return otherwise
        return found

    def _read_figures(
        self, method: str, ask: Callable[[], _T], check: Callable[[object], None]
    ) -> _T:
        """Return figures that are what they are to be; else an error says what they are."""
        try:
            found = ask()
            check(found)
        except ToolEngineError:
            raise
        except _MisfitError as error:
            self._note_failure(method, error)
            name = name_of(self._inner)
            raise AdmissionError(f"{method} of the controller {name}: {error}") from None
        except BaseException as error:  # foreign code
            if ends_caller(error):
                raise
            raise self._make_refusal(method, error) from error
        return found

    def _note_failure(self, method: str, error: BaseException) -> None:
        name = name_of(self._inner)
        _log.error("controller_failed", controller=name, method=method, error=words_of(error))

    def _check_slot(self, method: str, slot: Slot) -> Slot:
        try:
            acquired_at = slot.acquired_at + 0.0
        except BaseException as error:
            if ends_caller(error):
                raise
            name = name_of(self._inner)
            what = TypeError(f"{name}.{method} returned an object of type {name_of(slot)}, no Slot")
            raise self._make_refusal(method, what) from error
        del acquired_at
        return slot

    def _make_refusal(self, method: str, error: BaseException) -> AdmissionError:
        """Return the refusal; its words may hold what the call was sent, so the log has them."""
        self._note_failure(method, error)
        return AdmissionError(
            f"the controller {name_of(self._inner)} failed in {method}: {words_of(error, None)} "
            "(controller_failed in the log says more)"
        )


class _MisfitError(Exception):
    """What a controller returned is not what it is to return; its words are our own."""


def _make_misfit(found: object, wanted: str) -> _MisfitError:
    return _MisfitError(f"it returned a value of type {name_of(found)}; return a {wanted}")


def _check_metrics(found: object) -> None:
    if not isinstance(found, ConcurrencyMetrics):
        raise _make_misfit(found, "ConcurrencyMetrics")


def _check_buckets(found: object) -> None:
    if not isinstance(found, Mapping):
        raise _make_misfit(found, "dict of figures by bucket")
    for name, values in found.items():
        if not isinstance(name, str) or not isinstance(values, Mapping):
            raise _MisfitError(
                f"of the bucket {name!r:.80} it returned a value of type {name_of(values)}; "
                "return a dict"
            )
        for field in _OF_EACH_BUCKET:
            if not isinstance(values.get(field), int | float):
                what = (
                    "nothing"
                    if field not in values
                    else f"a value of type {name_of(values[field])}"
                )
                raise _MisfitError(
                    f"for {field!r} of the bucket {name!r:.80} it returned {what}; return a number"
                )


def _check_snapshot(found: object) -> None:
    if not isinstance(found, ConcurrencySnapshot):
        raise _make_misfit(found, "ConcurrencySnapshot")
    _check_metrics(found.metrics)
    _check_buckets(found.buckets)


def known_controller(
    config: ToolEngineConfig,
    concurrency: ConcurrencyConfig | None,
    controller: AdmissionController,
) -> AdmissionController:
    """Return what is given as the controller of an engine, as the engine uses it.

    Raises:
        ConfigurationError: Limits are given twice, or it is no controller.
    """
    check_part("controller", controller, AdmissionController)
    if concurrency is not None or config.concurrency != ConcurrencyConfig():
        raise ConfigurationError(
            "the limits are given twice, by `concurrency` and by the controller, which has its "
            "own; leave `concurrency` out, and give its limits to the controller"
        )
    return hold_to_contract(controller)


def hold_to_contract(controller: AdmissionController) -> AdmissionController:
    """Return what asks the controller, and says in an error where it breaks its contract."""
    is_own = type(controller) is ToolConcurrencyController
    return controller if is_own else ForeignController(controller)
