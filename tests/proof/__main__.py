"""Run by `make proof`: what takes too long for `make test`; exits with 1 when something fails."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence

from tests.proof import cluster, definitions, described, killed, mutate, simulation
from tests.proof.mutations import MUTATIONS

PARTS: dict[str, Callable[[argparse.Namespace], Awaitable[bool]]] = {
    "simulation": lambda options: simulation.prove(options.operations, options.seed),
    "cluster": lambda options: cluster.prove(options.operations, options.seed),
    "mutations": lambda options: mutate.prove(options.only),
    "definitions": lambda options: definitions.prove(options.seconds, options.seed),
    "killed": lambda options: killed.prove(options.seed),
    "described": lambda options: described.prove(options.seed),
}
"""What can be proved, by name; each prints what it finds and says whether all is well."""


def options_of(arguments: Sequence[str]) -> argparse.Namespace:
    """What is asked for on the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.proof", description=__doc__)
    parser.add_argument(
        "part", nargs="?", choices=sorted(PARTS), help="what to prove; without it, everything"
    )
    parser.add_argument("--list", action="store_true", help="list the mutations")
    parser.add_argument(
        "--only", action="append", default=[], metavar="NAME", help="try this mutation; repeatable"
    )
    parser.add_argument(
        "--operations", type=int, default=1_000_000, help="how many the simulations do"
    )
    parser.add_argument("--seed", type=int, default=1, help="what the simulations begin with")
    parser.add_argument(
        "--seconds",
        type=float,
        default=definitions.SECONDS,
        help="how long definitions are damaged",
    )
    return parser.parse_args(arguments)


async def main(arguments: Sequence[str]) -> bool:
    """Proves what was asked for; whether all of it holds."""
    options = options_of(arguments)
    if options.list:
        for mutation in MUTATIONS:
            print(f"{mutation.name}  ({mutation.file})")
        return True
    asked = "mutations" if options.only else options.part
    results = [await part(options) for name, part in PARTS.items() if asked in (None, name)]
    return all(results)


if __name__ == "__main__":
    try:
        sys.exit(0 if asyncio.run(main(sys.argv[1:])) else 1)
    except mutate.MutationError as error:
        sys.exit(f"error: {error}")
