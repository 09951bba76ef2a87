"""Can a node of the fleet ever hold a worker of a tool?"""

from __future__ import annotations

from typing import Any, Final

_GIB: Final = 2**30
_FIRST: Final = ("CPU", "GPU", "memory")


def choose_resources(found: dict[str, float]) -> dict[str, float]:
    """Return those that tools can ask for, in the order in which all name them.

    Of Ray's own that is `node:ADDRESS`, too: each node has it alone.
    """
    names = sorted(found, key=lambda name: (name not in _FIRST, name))
    return {name: found[name] for name in names if not name.startswith("object_store")}


def without_places(resources: dict[str, float]) -> dict[str, float]:
    """Return what says more than which nodes there are."""
    return {name: each for name, each in resources.items() if not name.startswith("node:")}


def find_lack(wanted: dict[str, float], nodes: list[dict[str, Any]]) -> str | None:
    """Say why no node can ever hold a worker with these resources; None: one can."""
    if any(_has_enough(node["resources"], wanted) for node in nodes):
        return None
    best = {name: max((n["resources"].get(name, 0) for n in nodes), default=0) for name in wanted}
    asked, there = word_amounts(wanted), word_amounts(best)
    where = (
        "its one node has" if len(nodes) == 1 else f"the most on one of its {len(nodes)} nodes is"
    )
    return (
        f"no node of the fleet can ever hold {asked}: {where} {there}; "
        "ask for less in entry.config.resources, or add a node"
    )


def _has_enough(has: dict[str, float], wanted: dict[str, float]) -> bool:
    return all(has.get(name, 0) >= amount for name, amount in wanted.items())


def word_amounts(resources: dict[str, float]) -> str:
    """Return amounts of resources in words."""
    return ", ".join(_word_amount(name, amount) for name, amount in resources.items())


def _word_amount(name: str, amount: float) -> str:
    if name == "memory":
        return f"{amount / _GIB:.2f} GiB of memory"
    plural = "s" if name in ("CPU", "GPU") and amount != 1 else ""
    return f"{amount:g} {name}{plural}"
