"""What does a process hear that only says that it goes on, and has nothing that others could want?

Its session shows that it is there, so nothing is written: else each of many idle processes would
write the state of all anew, again and again.
"""

from __future__ import annotations

from tool_engine.admission.cluster.coordinator import Coordinator
from tool_engine.admission.cluster.lease_messages import Reply, Sync


def answer_idle(
    state: Coordinator, message: Sync, now: float, sessions: frozenset[str] | None
) -> Reply | None:
    """Return the answer to a process that has nothing new to say, where it changes nothing.

    Args:
        state: The coordinator.
        message: What the process says.
        now: Seconds, on the database's clock.
        sessions: The lives that have a session; None: the process does not look after others.

    Returns:
        The answer; None: the message must be heard.
    """
    life = state.lives.get(message.life)
    if message.has_news or life is None or life.lost_at is not None or not state.is_idle(life):
        return None
    has_forgotten = message.answered > life.op or message.seen > (state.epoch, state.heard)
    if has_forgotten or state.absent or state.has_ended(now):
        return None
    if sessions is not None:
        for each in state.lives.values():
            is_over = now >= each.expires and not state.is_idle(each)
            if each.name not in sessions or is_over:
                return None
    return state.make_reply(life, message, [], now)
