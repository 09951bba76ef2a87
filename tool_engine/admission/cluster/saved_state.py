"""How does the state of a coordinator become bytes, and a coordinator again?

What can be worked out from the rest is left out: sums, and the lines of those that wait.
"""

from __future__ import annotations

from collections import deque
from typing import Final

import msgspec

from tool_engine.admission.cluster.breakers import ClusterBreaker
from tool_engine.admission.cluster.cluster_limits import ClusterLimits
from tool_engine.admission.cluster.coordinator import Coordinator
from tool_engine.admission.cluster.holder import Holder
from tool_engine.admission.cluster.life import Life
from tool_engine.admission.cluster.line_up import Turns
from tool_engine.errors import ConfigurationError

FORMAT: Final = 3
"""Of the saved state; a process that knows another one only takes no part."""


class _Saved(msgspec.Struct, array_like=True):
    format: int
    limits: ClusterLimits
    grace: float
    ttl: float
    counters: tuple[int, int, int]
    gated_until: float
    looked_at: float
    lives: list[Life]
    cooling: dict[str, list[tuple[float, int]]]
    lowered: set[str]
    blocked: set[str]
    has_changed: bool
    paused: dict[str, float]
    breakers: dict[str, ClusterBreaker]
    shares: Turns
    processes: dict[str, Turns]
    defined: dict[str, int]
    said_at: float


_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(_Saved)


def make_first_state(holder: Holder, removed_at: float | None) -> bytes:
    """Return what a process writes where nothing stands.

    Args:
        holder: What the process knows.
        removed_at: The time on the database's clock, if a state was removed by hand; then others
            may hold what is not known. None: there was none.
    """
    state = Coordinator(holder.limits, grace=holder.grace, ttl=holder.ttl)
    if removed_at is not None:
        state.restart_unsure(removed_at)
    return save_state(state)


def save_state(coordinator: Coordinator) -> bytes:
    """Return the state as MessagePack."""
    lives = coordinator.lives.values()
    entries = [(entry, entry.line) for life in lives for entry in life.entries.values()]
    for entry, _ in entries:
        entry.line, entry.owner, entry.process = None, "", ""
    saved = _Saved(
        FORMAT,
        coordinator.limits,
        coordinator.grace,
        coordinator.ttl,
        (coordinator.epoch, coordinator.heard, coordinator.places),
        coordinator.gated_until,
        coordinator.looked_at,
        list(lives),
        {name: list(row) for name, row in coordinator.books.cooling.items()},
        coordinator.lowered,
        coordinator.blocked,
        coordinator.has_changed,
        coordinator.paused,
        coordinator.breakers,
        coordinator.line_up.shares,
        coordinator.line_up.processes,
        coordinator.books.defined,
        coordinator.said_at,
    )
    try:
        return _encoder.encode(saved)
    finally:
        for life in lives:
            _name_owner(life)
        for entry, line in entries:
            entry.line = line


def _name_owner(life: Life) -> None:
    for entry in life.entries.values():
        entry.owner, entry.process = life.name, life.process


def load_state(data: bytes) -> Coordinator:
    """Return the coordinator of a saved state.

    Raises:
        ConfigurationError: It is of another format, or damaged.
    """
    try:
        saved = _decoder.decode(data)
    except msgspec.MsgspecError as error:
        raise ConfigurationError(
            f"the state of the cluster cannot be read ({error}): another version of tool_engine "
            "wrote it, or it is damaged; run one version in all its processes, or remove its row "
            "from the table tool_cluster"
        ) from None
    coordinator = Coordinator(saved.limits, grace=saved.grace, ttl=saved.ttl)
    coordinator.epoch, coordinator.heard, coordinator.places = saved.counters
    coordinator.gated_until, coordinator.looked_at = saved.gated_until, saved.looked_at
    coordinator.said_at = saved.said_at
    coordinator.lowered, coordinator.paused = saved.lowered, saved.paused
    coordinator.breakers = saved.breakers
    books, line_up = coordinator.books, coordinator.line_up
    books.defined = saved.defined
    line_up.shares, line_up.processes = saved.shares, saved.processes
    for life in saved.lives:
        coordinator.lives[life.name] = life
        if life.epoch != coordinator.epoch:
            coordinator.absent.add(life.name)
        for resource, account in life.accounts.items():
            if account.out:
                books.move(life.name, resource, account.out)
        _name_owner(life)
        for entry in life.entries.values():
            if not entry.is_held and not entry.is_granted:
                line_up.join(entry)
                if entry.asks:
                    coordinator.asking.append(entry)
    for resource, row in saved.cooling.items():
        books.cooling[resource] = deque((until, starts) for until, starts in row)
        books.used[resource] = books.used.get(resource, 0) + sum(starts for _, starts in row)
    coordinator.blocked, coordinator.has_changed = saved.blocked, saved.has_changed
    return coordinator
