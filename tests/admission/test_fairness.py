"""Does the order of turns agree with deficit round robin as the textbook has it?"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.effort import share_of
from tool_engine.admission.fairness import count_served, join_line, turn_in_line
from tool_engine.admission.key import Key
from tool_engine.admission.waiting import Waiter

Costs = dict[str, list[int]]
Shares = dict[str, float]

WEIGHTS = st.sampled_from([0.25, 0.5, 1.0, 2.0, 3.0, 7.5])
COSTS = st.lists(st.integers(1, 6), min_size=1, max_size=25)


def make_call(weight: int) -> Waiter:
    """A waiter of which only the weight matters."""
    nothing: Any = None
    return Waiter(nothing, nothing, weight, (0.0, 0, 0), 0.0, nothing)


@dataclass
class Line:
    """Keys that share one slot, each with one line of calls."""

    shares: Shares
    current: float = 0.0
    arrivals: int = 0
    keys: dict[str, Key] = field(default_factory=dict)
    calls: dict[str, deque[tuple[int, Waiter]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, weight in self.shares.items():
            self.keys[name] = Key(name)
            self.keys[name].weight = weight
            self.calls[name] = deque()

    def come(self, name: str, cost: int) -> None:
        join_line(self.keys[name], self.current)
        self.keys[name].waiting += 1
        self.calls[name].append((self.arrivals, make_call(cost)))
        self.arrivals += 1

    def busy(self) -> set[str]:
        return {name for name, calls in self.calls.items() if calls}

    def go(self) -> tuple[str, int, float]:
        """Serves the next call; says whose it is, what it costs, and in which round that is."""
        heads = {
            (turn_in_line(self.keys[name], calls[0][1]), calls[0][0]): name
            for name, calls in self.calls.items()
            if calls
        }
        (turn, _), name = min(heads.items())
        _, call = self.calls[name].popleft()
        self.keys[name].waiting -= 1
        self.current = count_served(self.keys[name], call, self.current)
        assert self.current == turn
        return name, call.weight, turn


def textbook(costs: Costs, shares: Shares) -> dict[str, list[int]]:
    """Shreedhar and Varghese 1995: the round in which each call of each key is served."""
    lines = {name: deque(line) for name, line in costs.items()}
    active = deque(lines)
    deficits = dict.fromkeys(lines, 0.0)
    rounds: dict[str, list[int]] = {name: [] for name in lines}
    number = 0
    while active:
        number += 1
        for _ in range(len(active)):
            name = active.popleft()
            deficits[name] += shares[name]
            while lines[name] and lines[name][0] <= deficits[name]:
                deficits[name] -= lines[name].popleft()
                rounds[name].append(number)
            if lines[name]:
                active.append(name)
            else:
                deficits[name] = 0.0
    return rounds


@given(st.lists(st.tuples(WEIGHTS, COSTS), min_size=1, max_size=6))
@settings(max_examples=share_of(150), deadline=None)
def test_rounds_are_those_of_the_textbook(keys: list[tuple[float, list[int]]]) -> None:
    """C15: every call is served in the round that plain deficit round robin serves it in."""
    shares = {f"k{number}": weight for number, (weight, _) in enumerate(keys)}
    costs = {f"k{number}": line for number, (_, line) in enumerate(keys)}
    line = Line(shares)
    for name, each in costs.items():
        for cost in each:
            line.come(name, cost)
    served: dict[str, list[float]] = {name: [] for name in costs}
    last = 0.0
    while line.busy():
        name, _, turn = line.go()
        assert turn >= last
        last = turn
        served[name].append(turn)
    assert served == textbook(costs, shares)


@given(st.lists(WEIGHTS, min_size=2, max_size=5), st.integers(1, 4))
@settings(max_examples=share_of(60), deadline=None)
def test_shares_in_the_long_run(weights: list[float], cost: int) -> None:
    """C15: keys that always want more get as much as their weights say, give or take one call."""
    shares = {f"k{number}": weight for number, weight in enumerate(weights)}
    line, got = Line(shares), Counter[str]()
    for name in shares:
        line.come(name, cost)
        line.come(name, cost)
    for _ in range(600):
        name, paid, _ = line.go()
        got[name] += paid
        line.come(name, cost)
    for name, weight in shares.items():
        behind = line.current - got[name] / weight
        assert -1 <= behind <= 1 + cost / weight, (name, behind)


@given(
    st.lists(WEIGHTS, min_size=2, max_size=4),
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5)), max_size=200),
)
@settings(max_examples=share_of(150), deadline=None)
def test_nobody_falls_behind(weights: list[float], steps: list[tuple[int, int]]) -> None:
    """C15: keys come, empty and come back; of two that both want all the time, none is ahead of the
    other by more than a quantum and a call of each."""
    shares = {f"k{number}": weight for number, weight in enumerate(weights)}
    line = Line(shares)
    since: dict[tuple[str, str], dict[str, float]] = {}
    for number, cost in steps:
        if cost:
            line.come(f"k{number % len(weights)}", cost)
        elif line.busy():
            name, paid, _ = line.go()
            for got in since.values():
                if name in got:
                    got[name] += paid / shares[name]
        busy = line.busy()
        since = {(a, b): since.get((a, b), {a: 0.0, b: 0.0}) for a in busy for b in busy if a < b}
        for (a, b), got in since.items():
            most = 2 + 5 / shares[a] + 5 / shares[b]
            assert abs(got[a] - got[b]) <= most, got


def test_turns_cannot_be_saved_up() -> None:
    """C15: a key that was idle for a thousand rounds is served like one that was never seen."""
    line = Line({"a": 1.0, "idle": 1.0})
    line.come("idle", 1)
    assert line.go()[0] == "idle"
    for _ in range(1000):
        line.come("a", 1)
        line.go()
    for name in ("a", "idle"):
        for _ in range(4):
            line.come(name, 1)
    assert [line.go()[0] for _ in range(8)] == ["a", "idle"] * 4


def test_key_that_was_held_up_makes_up_for_one_turn_only() -> None:
    """C15: a key that wanted to go and could not has one call ahead of its turn, and no more."""
    line = Line({"a": 1.0, "late": 1.0})
    for _ in range(10):
        line.come("late", 1)
    held_up, line.calls["late"] = line.calls["late"], deque()
    for _ in range(100):
        line.come("a", 1)
    for _ in range(50):
        assert line.go()[0] == "a"
    line.calls["late"] = held_up
    heads = [(turn_in_line(line.keys[n], line.calls[n][0][1]), n) for n in ("a", "late")]
    assert min(heads)[1] == "late"
    call = line.calls["late"].popleft()[1]
    line.keys["late"].waiting -= 1
    line.current = count_served(line.keys["late"], call, line.current)
    assert line.current == 50
    assert Counter(line.go()[0] for _ in range(10)) == {"a": 5, "late": 5}


def test_leftover_is_lost_when_a_key_empties() -> None:
    """C15: what a key does not use while it has nothing to run is not kept for it."""
    line = Line({"a": 3.0})
    line.come("a", 1)
    line.go()
    assert line.keys["a"].credit == 0


def test_heavy_call_is_not_put_off_by_light_ones_of_its_key() -> None:
    """C15, C16: what a key takes in other lanes does not move the turn of a heavy call for ever."""
    key = Key("k")
    key.waiting = 100
    heavy, current, served = make_call(3), 0.0, 0
    assert turn_in_line(key, heavy) == 3
    while turn_in_line(key, heavy) > turn_in_line(key, light := make_call(1)):
        current = count_served(key, light, current)
        served += 1
    assert served == 2
    current = count_served(key, heavy, current)
    assert current == 3
    assert turn_in_line(key, make_call(1)) == 6
