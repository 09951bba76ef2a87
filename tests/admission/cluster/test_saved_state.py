"""Is a coordinator that was written and read again the same?"""

from __future__ import annotations

import random

import pytest

from tests.admission.cluster import cluster_world
from tests.admission.cluster.cluster_world import World
from tests.admission.cluster.shared_by_a_world import random_setting
from tests.admission.cluster.watching_grants import WatchedCoordinator
from tests.effort import IS_WHOLE
from tool_engine.admission.cluster.cluster_limits import STRATEGIES, ClusterLimits
from tool_engine.admission.cluster.coordinator import Coordinator
from tool_engine.admission.cluster.lease_messages import Message
from tool_engine.admission.cluster.life import Outcome
from tool_engine.admission.cluster.saved_state import load_state, save_state
from tool_engine.errors import ConfigurationError

CALLS = 250 if IS_WHOLE else 125


class SavedCoordinator(WatchedCoordinator):
    """Is written and read after each message, as in a database."""

    def hear(self, message: Message, now: float, sessions: frozenset[str] | None = None) -> Outcome:
        outcome = super().hear(message, now, sessions)
        read = load_state(save_state(self))
        for name in ("absent", "blocked", "lowered", "paused", "gated_until", "has_changed"):
            assert getattr(read, name) == getattr(self, name), name
        vars(self).update(vars(read))
        return outcome


@pytest.mark.thinned(2)
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("seed", range(1, 13 if IS_WHOLE else 3))
def test_it_keeps_its_promises(monkeypatch: pytest.MonkeyPatch, seed: int, strategy: str) -> None:
    monkeypatch.setattr(cluster_world, "WatchedCoordinator", SavedCoordinator)
    world = World(seed, random_setting(random.Random(seed), strategy))  # noqa: S311 - a test
    world.run(CALLS)
    assert world.ledger.counts["ended"] > CALLS / 5


@pytest.mark.parametrize("damaged", [b"", b"\x00", save_state(Coordinator(ClusterLimits(1)))[:-1]])
def test_what_is_damaged_is_told(damaged: bytes) -> None:
    with pytest.raises(ConfigurationError, match="the state of the cluster cannot be read"):
        load_state(damaged)
