"""How does a process take part in its cluster: what does it send, and what does it do with answers?

It drives a `Holder` by the clock and by what the connection brings, and does what that returns.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Callable, Collection
from functools import partial
from typing import Any, Final

from tool_engine.admission.cluster.cluster_database import (
    LOST,
    PATIENCE,
    ClusterConnection,
    Found,
    is_refusal,
)
from tool_engine.admission.cluster.cluster_limits import ClusterLimits, is_rate
from tool_engine.admission.cluster.effects import (
    Adopt,
    Effect,
    PauseUntil,
    Refuse,
    Send,
    Start,
    TurnBreaker,
    Wait,
)
from tool_engine.admission.cluster.lease_messages import (
    Message,
    Note,
    Sync,
    decode_message,
)
from tool_engine.admission.cluster.leased_call import make_entry
from tool_engine.admission.cluster.outage import ON_UNAVAILABLE, Outage, refuse_for_good
from tool_engine.admission.cluster.process_holder import ProcessHolder, Turn
from tool_engine.admission.cluster.saved_state import make_first_state
from tool_engine.admission.cluster.shared_row import SharedRow
from tool_engine.admission.cluster.stand_in import StandIn
from tool_engine.admission.reasons import name_of
from tool_engine.clock import read_uptime
from tool_engine.errors import (
    AdmissionError,
    ConfigurationError,
    EngineClosedError,
)
from tool_engine.interfaces.lease_source import LeaseHolder, Needs
from tool_engine.logger import get_logger
from tool_engine.model.checks.bounds import check_choice
from tool_engine.model.settings.concurrency import BreakerPolicy
from tool_engine.redaction import words_of

_log: Final = get_logger("tool_engine.admission.cluster")
_AGAIN: Final = (0.02, 0.5)
"""Seconds until a lost connection is made again: at first, and at most."""


class ClusterMember:
    """The source of a controller's units, which PostgreSQL keeps for all processes.

    Args:
        url: The database, or what finds its URL, which may block.
        cluster: The cluster's name.
        process: The name of this process.
        limits: Those of its configuration.
        grace: Seconds that a process whose session ended has to come back.
        ttl: Seconds after which a silent one is given up.
        idle_time: Seconds for which units stay that no call uses.
        on_unavailable: What happens to calls while the database has not answered for a `ttl`:
            `refuse`, or `local`, where each process has the limits of the cluster to itself.
    """

    def __init__(
        self,
        url: str | Callable[[], str],
        cluster: str,
        process: str,
        limits: ClusterLimits,
        *,
        grace: float = 0.3,
        ttl: float = 10.0,
        idle_time: float = 5.0,
        on_unavailable: str = "refuse",
    ) -> None:
        check_choice("on_unavailable", on_unavailable, ON_UNAVAILABLE)
        self._outage, self._on_unavailable = Outage(ttl), on_unavailable
        self._holder = ProcessHolder(
            process,
            limits,
            self._count_used,
            self._number_lost,
            grace=grace,
            ttl=ttl,
            idle_time=idle_time,
        )
        self._turn = Turn(self._holder, self._apply_effects)
        self._url = url
        self._secret: bytes | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self.cluster = cluster
        """The name of the cluster."""
        self._connection = self._make_connection()
        self._stand_in = StandIn(self._holder, self._make_silent_connection)
        self._desk: Any = None
        self._count = 0
        self._waiters: dict[int, Any] = {}
        self._numbers: dict[Any, int] = {}
        self.lost_slots: dict[Any, int] = {}
        """Slots whose units were lost, and whose work has not ended."""
        self._row = SharedRow()
        self._shown: dict[str, tuple[int, bool] | None] = {}
        """What the controller knows of units; None: it may know something else."""
        self._life: str | None = None
        self._ended: asyncio.Event | None = None
        self._lost_by: BaseException = ConnectionResetError("the connection has ended")
        self._sending: set[asyncio.Task[None]] = set()
        self._running: asyncio.Task[None] | None = None
        self._last: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._heard = asyncio.Event()
        """Set once the coordinator has answered, or will not."""
        self.on_adopt: Callable[[ClusterLimits], object] = id
        """Hears of other limits than this process knew."""
        self.on_lost: Callable[[Collection[Any]], object] = list
        """Hears of slots whose units others may have by now."""
        self._is_local = self._is_over = self._is_leaving = False
        self.refusal: ConfigurationError | None = None
        """Why the cluster does not take this process; None: it does."""
        self._sure_until = self._wakes_at = math.inf
        """Until when no look at the clock is needed, and when the timer looks at it."""
        self.lost = 0
        """How many calls have lost their units since the start."""

    # What the controller asks: see `interfaces.LeaseSource`.

    @property
    def limits(self) -> ClusterLimits:
        """Those that hold in the cluster, as far as this process knows."""
        return self._holder.limits

    def find_secret(self) -> bytes | None:
        """Return what all processes hash values of keys with; None: it is being asked for."""
        if self._secret is None:
            # A call that needs no more than that would wait for ever, for it has no place yet.
            self._start_running()
        return self._secret

    def attach(self, holder: LeaseHolder) -> None:
        """Take note of the controller."""
        self._desk = holder

    def refuse(self, bucket: str) -> AdmissionError | None:
        """Return why no call of a bucket gets units; None: it may."""
        if self.refusal is not None:
            return refuse_for_good(self.cluster, bucket, self.refusal)
        if self._outage.is_known and not self._is_local:
            return self._outage.refuse(self.cluster, bucket)
        return None

    def ask(self, waiter: Any, needs: Needs, *, is_strict: bool) -> None:
        """Note that a call waits for what it needs of others, and for nothing else."""
        self._start_running()
        number = self._numbers.get(waiter)
        if number is not None:
            self._turn.do_later(partial(self._holder.resume, number))
            return
        self._count += 1
        number = self._numbers[waiter] = self._count
        self._waiters[number] = waiter
        entry = make_entry(self._holder.process, number, waiter, needs, is_strict=is_strict)
        self._turn.do_later(partial(self._holder.ask_for, entry))

    def find_delay(self, waiter: Any) -> float:
        """Return for how many seconds shared rates let a call not start; 0.0: none holds it up."""
        call = self._holder.waiting.get(self._numbers.get(waiter, 0))
        return 0.0 if call is None else self._holder.signs.find_delay(call.entry, read_uptime())

    def withdraw(self, waiter: Any) -> None:
        """Note that a call that has asked waits no more."""
        number = self._numbers.pop(waiter, None)
        if number is not None:
            del self._waiters[number]
            self._turn.do_later(partial(self._holder.withdraw, number))

    def give_back(self, resource: str, units: int) -> None:
        """Take units back; the holder sees for itself how many are idle."""
        del units
        holder = self._holder
        is_asked = resource in holder.wanted or resource in holder.short  # it serves its own first
        self._turn.do_later(partial(holder.let_idle_go, of=() if is_asked else (resource,)))

    def trip(self, breaker: str, policy: BreakerPolicy | None) -> None:
        """Open a breaker in all processes."""
        self._start_running()
        self._turn.do_later(lambda now: self._holder.trip(breaker, now, policy))

    def end_probe(self, probe: int, outcome: bool | None) -> None:
        """Say what became of a call that tried a breaker."""
        self._turn.do_later(lambda now: self._holder.give_back(probe, now, outcome))

    # What the holder wants.

    def _apply_effects(self, effects: list[Effect]) -> None:
        now = read_uptime()
        self._show_units()  # a call that starts below hands on, and none is to have what went back
        for effect in effects:
            if isinstance(effect, Send):
                task = asyncio.get_running_loop().create_task(self._send_message(effect.message))
                self._sending.add(task)
                task.add_done_callback(self._sending.discard)
            elif isinstance(effect, Start):
                self._start_call(effect)
            elif isinstance(effect, Wait):
                waiter = self._waiters.get(effect.number)
                if waiter is not None:
                    self._desk.keep_waiting(waiter)
            else:
                self._take_news(effect, now)
        if any(not isinstance(effect, Send) for effect in effects):
            self._show_units()
        self._set_timer()
        if self._holder.has_units:
            self._stand_in.begin()
        if self._is_leaving and not self._holder.is_busy:
            self._is_leaving = False
            self._last = asyncio.get_running_loop().create_task(self._leave_cluster())

    def _take_news(self, effect: Effect, now: float) -> None:
        """Do what is new in the cluster in this process, too."""
        if isinstance(effect, PauseUntil):
            kind, _, name = effect.resource.partition(":")
            if kind == "bucket":
                self._desk.pause(name, effect.until - now)
        elif isinstance(effect, TurnBreaker):
            self._desk.turn_breaker(effect.breaker, effect.view.left)
        elif isinstance(effect, Adopt):
            self._shown = dict.fromkeys(self._shown)
            self._desk.share_limits(effect.limits)
            self.on_adopt(effect.limits)
        elif isinstance(effect, Refuse):
            self._take_refusal(ConfigurationError(effect.reason), is_final=effect.is_final)

    def _start_call(self, effect: Start) -> None:
        number, holder = effect.number, self._holder
        waiter, call = self._waiters.get(number), holder.running.get(number)
        if waiter is None or call is None:
            self._turn.do_later(partial(holder.give_back, number))
            if waiter is not None:  # what it was granted was lost meanwhile
                del self._waiters[number], self._numbers[waiter]
                self._desk.ask_anew(waiter)
            return
        accounts = holder.accounts
        counted = [r for r in call.entry.units if r in accounts and not is_rate(r)]
        own = call.entry.units
        units = {resource: self._count_units(resource) + own[resource] for resource in counted}
        self._shown.update(dict.fromkeys(counted))
        probe = None if call.probe is None else (call.probe[0], number)
        if self._desk.start(waiter, units, probe):
            del self._waiters[number], self._numbers[waiter]
            holder.note_started([number])
        elif waiter.is_waiting:
            self._turn.do_later(partial(holder.decline, number))
        else:
            self._waiters.pop(number, None)
            self._numbers.pop(waiter, None)
            self._turn.do_later(partial(holder.give_back, number))

    def _show_units(self) -> None:
        """Let the controller know what has changed."""
        holder, limits = self._holder, self._holder.limits
        resources = {f"bucket:{name}" for name in limits.buckets}
        for resource in resources.union(holder.accounts, self._shown):
            is_bucket = resource.startswith("bucket:")
            if is_rate(resource) or (is_bucket and limits.limit_of(resource) is None):
                continue
            is_wanted = resource in holder.wanted or resource in holder.short or self._is_leaving
            units = self._count_units(resource), is_wanted
            if self._is_local and is_bucket:
                units = limits.limit_of(resource) or 0, False
            if self._shown.get(resource, (0, False)) != units:
                self._shown[resource] = units
                self._desk.set_units(resource, units[0], is_wanted=is_wanted)
            if units == (0, False):
                self._shown.pop(resource, None)  # keys have as many as they have values

    def _count_units(self, resource: str) -> int:
        """Return how many units the controller may use: not those of calls about to start.

        What is idle may be with others by now, if this process has slept and heard nothing since.
        """
        holder = self._holder
        account = holder.accounts.get(resource)
        if account is None:
            return 0
        units = account.out - holder.used.get(resource, 0)
        if holder.is_sure(read_uptime()):
            return units
        return min(units, self._count_used(resource))

    def _count_used(self, resource: str) -> int:
        return int(self._desk.count_used(resource))

    def _number_lost(self) -> list[int]:
        slots, numbers = self._desk.lose_all(), []
        for slot in slots:
            self._count += 1
            self.lost_slots[slot] = self._count
            numbers.append(self._count)
        if slots:
            self.lost += len(slots)
            _log.warning("cluster_leases_lost", calls=len(slots))
            self.on_lost(slots)
        return numbers

    def look_at_clock(self) -> None:
        """Lose what others may have by now; to be called before a unit is used or given back."""
        if read_uptime() >= self._sure_until:
            self._tick_clock()

    def end_lost(self, slot: Any) -> bool:
        """Take note that the work of a slot has ended; return whether its units were lost."""
        number = self.lost_slots.pop(slot, None)
        if number is not None:
            self._apply_effects(self._holder.give_back(number, read_uptime()))
        return number is not None

    # What the engine asks.

    def end(self) -> None:
        """Take no part from now on, and end the wait in `join`."""
        self._is_over = True
        self._heard.set()

    def check_open(self) -> None:
        """Raise `EngineClosedError` once it takes no part any more."""
        if self._is_over:
            raise EngineClosedError("the engine is closed; make a new one")

    async def join(self, seconds: float) -> bool:
        """Wait until the coordinator has answered; False: it has not within that time.

        Raises:
            ConfigurationError: The cluster does not take this process.
            EngineClosedError: The engine was closed.
        """
        self.check_open()
        if self._running is not None and self._running.done():  # it was refused: is it still?
            self.refusal = None
            self._heard.clear()
        self._start_running()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._heard.wait()
        self.check_open()
        if self.refusal is not None:
            raise self.refusal
        return self._heard.is_set()

    async def read_state(self) -> Found:
        """Read what stands in the database; raises what its connection does, and `join`."""
        await self.join(PATIENCE)
        return await self._connection.read()

    def find_ticket(self, call_id: str) -> tuple[str, int] | None:
        """Return the life and the number under which a call waits there; None: it does not."""
        for waiter, number in self._numbers.items():
            if name_of(waiter) == call_id:
                return self._holder.life, number
        return None

    def count(self) -> dict[str, Any]:
        """Return figures of this process: see `ClusterView.count`."""
        limits, accounts = self._holder.limits, self._holder.accounts
        units = {r: account.out for r, account in accounts.items() if not is_rate(r)}
        return {
            "connected": int(self._connection.is_open),
            "waiting": len(self._waiters),
            "statements": self._row.statements,
            "lost": self.lost,
            "units": {f"bucket:{name}": 0 for name in limits.buckets} | units,
        }

    def describe_trouble(self) -> str:
        """Return what the last try to connect said."""
        return self._outage.reason or "it takes its time"

    def configure(self, limits: ClusterLimits) -> None:
        """Bring other limits to the cluster.

        Raises:
            ConfigurationError: They contradict those of the cluster under one revision.
        """
        self._apply_effects(self._holder.configure(limits, read_uptime()))

    def pause(self, bucket: str, seconds: float) -> None:
        """Let no call of a bucket start for some time, in all processes."""
        self._start_running()
        self._turn.do_later(partial(self._holder.pause, f"bucket:{bucket}", seconds))

    def let_idle_go(self) -> None:
        """Give back all that no call uses."""
        self._apply_effects(self._holder.let_idle_go(read_uptime()))

    # What the connection brings.

    def _start_running(self) -> None:
        if self._follow_loop():
            self._turn.do_later(self._holder.on_connection_lost)
        if self._running is None or self._running.done():
            self._running = asyncio.get_running_loop().create_task(self._stay_connected())

    def _make_connection(self) -> ClusterConnection:
        return ClusterConnection(self._url, self.cluster, self._hear_note, self._hear_end)

    def _make_silent_connection(self) -> ClusterConnection:
        return ClusterConnection(self._url, self.cluster, lambda _: None, lambda: None)

    def _follow_loop(self) -> bool:
        """Connect anew where another event loop runs than before, which has ended; return so."""
        loop = asyncio.get_running_loop()
        before, self._loop = self._loop, loop
        if before is None or before is loop:
            return False
        self._connection, self._running, self._timer = self._make_connection(), None, None
        self._wakes_at = math.inf
        self._sending, self._heard = set(), asyncio.Event()
        self._row.forget()
        return True

    async def _stay_connected(self) -> None:
        connection = self._connection
        try:
            await self._keep_open(connection)
        finally:
            connection.abort()  # its event loop may be about to end
            if self._is_leaving:
                self._stand_in.stop()

    async def _keep_open(self, connection: ClusterConnection) -> None:
        holder, pause = self._holder, _AGAIN[0]
        while True:
            life = holder.life
            try:
                await connection.open(life, partial(make_first_state, holder))
            except (ConfigurationError, *LOST) as error:
                if isinstance(error, ConfigurationError) and self._life is None:
                    self._take_refusal(error, is_final=True)
                    return
                self._note_outage(error)  # one that has taken part before comes back
                happens = holder.on_refused if is_refusal(error) else holder.tick
                self._apply_effects(happens(read_uptime()))
                await asyncio.sleep(pause)
                pause = min(2 * pause, _AGAIN[1])
                continue
            self._ended, connection.was_answered = asyncio.Event(), False
            if self._secret is None:
                self._secret = connection.secret
                self._desk.share_limits(holder.limits)  # keys have their names now
            self._life = life
            self._row.forget()
            self._apply_effects(holder.on_connected(read_uptime()))
            await self._ended.wait()
            connection.abort()
            was_warned = connection.was_warned
            self._apply_effects(holder.on_connection_lost(read_uptime(), was_warned=was_warned))
            self._note_outage(self._lost_by)
            if not isinstance(self._lost_by, LOST):
                await asyncio.sleep(_AGAIN[1])  # the same may come again
            elif connection.was_answered:
                pause = _AGAIN[0]
            else:  # as where a server can only be read by now
                await asyncio.sleep(pause)
                pause = min(2 * pause, _AGAIN[1])

    def _take_refusal(self, error: ConfigurationError, *, is_final: bool) -> None:
        _log.error("cluster_refused", cluster=self.cluster, error=str(error))
        if is_final:
            self.refusal = error
            self._heard.set()
            self._desk.refuse_all()

    # What if the database cannot be reached?

    def _note_outage(self, error: BaseException) -> None:
        """Refuse calls, or go by the limits alone, when there was no answer for too long."""
        now, was_known = read_uptime(), self._outage.is_known
        self._outage.note_failure(error, now)
        if self._outage.lasts(now, self._holder.grace):
            for waiter in list(self._waiters.values()):
                self._desk.keep_waiting(waiter)  # those that must not wait are refused
        if self._outage.is_known and not was_known:
            self._is_local = self._on_unavailable == "local"
            _log.error("cluster_unavailable", cluster=self.cluster, error=self._outage.reason)
            self._desk.set_local(self._is_local)
            self._show_units()
            self._desk.refuse_all()

    def _end_outage(self) -> None:
        if self._outage.end():
            _log.info("cluster_available", cluster=self.cluster)
            if self._is_local:
                # What runs goes on, and is no part of what the cluster gives from now on.
                self._is_local = False
                self._desk.lose_all()
                self._desk.set_local(False)
                self._shown = dict.fromkeys(self._shown)

    def _hear_note(self, text: str) -> None:
        if not text:
            # Too long for a notification: the answer to the next message says it.
            self._holder.outbox.is_urgent = True
            self._apply_effects(self._holder.tick(read_uptime()))
            return
        note = decode_message(self._row.take_note(text))
        if isinstance(note, Note):
            self._apply_effects(self._holder.on_notification(note, read_uptime()))

    def _hear_end(self) -> None:
        if self._ended is not None:
            self._ended.set()

    async def _send_message(self, message: Message) -> None:
        if message.life != self._life:
            # Its life has ended: the next one has a session of its own.
            self._hear_end()
            return
        connection, ended = self._connection, self._ended
        try:
            answer = await self._row.write(message, connection)
            connection.was_answered = True
            self._end_outage()
            self._apply_effects(self._holder.on_reply(answer, read_uptime()))
            self._heard.set()
            needs_notes = self._holder.is_involved or self._desk.shares_breakers
            is_beat = isinstance(message, Sync) and message.looks
            if needs_notes is not connection.is_listening and (needs_notes or is_beat):
                self._row.statements += 1
                await connection.listen(message.life, is_needed=needs_notes)
                # What was said since the answer is said again with the next one.
                self._hear_note("")
        except Exception as error:  # noqa: BLE001 - else all would wait for an answer for ever
            if not isinstance(error, LOST):
                _log.error("cluster_failed", error=words_of(error))
            self._lost_by = error
            self._row.forget()
            if ended is not None:
                ended.set()  # of its own connection: the next one may be there by now

    def _set_timer(self) -> None:
        holder = self._holder
        self._sure_until = holder.sure_until() if holder.accounts else math.inf
        due = holder.wake_at()
        if due >= self._wakes_at:
            return  # what is too early does no harm, and most of what happens puts it off
        if self._timer is not None:
            self._timer.cancel()
        self._wakes_at = due
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(max(due - read_uptime(), 0.0), self._tick_clock)

    def _tick_clock(self) -> None:
        self._wakes_at = math.inf
        if self._follow_loop():
            self._apply_effects(self._holder.on_connection_lost(read_uptime()))
        self._apply_effects(self._holder.tick(read_uptime()))

    async def close(self) -> None:
        """Give everything back, and leave.

        Work that cannot be ended keeps its units, and this process its connection, until it ends.
        """
        self._apply_effects(self._holder.close(read_uptime()))
        if self._holder.is_busy:
            units = {r: n for r in self._holder.accounts if (n := self._count_used(r))}
            if units:
                _log.warning("cluster_units_kept", cluster=self.cluster, units=units)
            self._is_leaving = True
            self._show_units()
        else:
            await self._leave_cluster()

    async def _leave_cluster(self) -> None:
        while self._sending:
            await asyncio.wait(self._sending)
        if self._timer is not None:
            self._timer.cancel()
        await self._stand_in.end()
        if self._running is not None:
            self._running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._running
        self._connection.abort()
