"""Whose turn is it, when keys share what is free by deficit round robin?

In every round each key may take as much as its weight, and what it does not use of it counts for
the next round while it still has calls waiting. The round in which a call is served depends on its
own key alone, so it can stand in a heap; only the first call of a key needs one.
"""

from __future__ import annotations

from math import ceil

from tool_engine.admission.key import Key
from tool_engine.admission.waiting import Waiter


def join_line(share: Key, current: float) -> None:
    """A call of the key is about to wait; `current` is the round of the call served last.

    A key that had nothing to run since an earlier round starts anew: turns cannot be saved up.
    """
    if not share.waiting and share.round < current:
        share.round, share.credit = current, 0.0


def turn_of(share: Key, weight: int) -> float:
    """The round in which the next call of the key is served, if it has this `weight`."""
    missing = weight - share.credit
    return share.round if missing <= 0 else share.round + ceil(missing / share.weight)


def turn_in_line(share: Key, waiter: Waiter) -> float:
    """The round of a call that is the first of its lane.

    What its key takes in other lanes meanwhile does not put off for good a heavy call, for which
    the key saves up: light calls go before it in the rounds until then, and not after.
    """
    if waiter.due is None:
        waiter.due = turn_of(share, waiter.weight)
    return max(waiter.due, turn_of(share, 1))


def count_served(share: Key, waiter: Waiter, current: float) -> float:
    """Counts a call that is served now, and returns the round that it is now.

    A call that was held up until after its round goes as soon as it can, but its key does not make
    up for the other rounds that it missed.
    """
    turn = turn_in_line(share, waiter)
    if turn < current:
        share.round, share.credit = current, 0.0
    else:
        paid = turn_of(share, waiter.weight)
        share.credit += (paid - share.round) * share.weight - waiter.weight
        share.round = paid
    if not share.waiting:
        share.credit = 0.0
    return max(turn, current)
