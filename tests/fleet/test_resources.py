"""Which of Ray's resources can tools ask for, and how are they named?"""

from __future__ import annotations

import random

from tool_engine.executors.fleet.resources import (
    choose_resources,
    find_lack,
    without_places,
    word_amounts,
)

FOUND = {
    "node:10.0.0.7": 1.0,
    "tpu": 2.0,
    "memory": 2.0**32,
    "object_store_memory": 5.0,
    "GPU": 1.0,
    "A100": 1.0,
    "CPU": 4.0,
}


def test_one_order() -> None:
    """However Ray lists them: a page that is asked for again reads as before."""
    names = [*FOUND]
    for _ in range(10):
        random.shuffle(names)
        chosen = choose_resources({name: FOUND[name] for name in names})
        assert word_amounts(without_places(chosen)) == (
            "4 CPUs, 1 GPU, 4.00 GiB of memory, 1 A100, 2 tpu"
        )


def test_a_place_that_ray_has() -> None:
    """`node:ADDRESS` is a resource like any other."""
    nodes = [{"resources": choose_resources(FOUND)}]
    assert find_lack({"node:10.0.0.7": 0.001}, nodes) is None
    assert "can ever hold 0.001 node:10.0.0.8" in str(find_lack({"node:10.0.0.8": 0.001}, nodes))
