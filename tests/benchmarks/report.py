"""How are the figures printed? As Markdown tables, which the README can quote."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Mapping, Sequence

from tests.benchmarks.measure import ROUNDS, Figures

__all__ = ["budget", "calls", "machine", "rates", "seconds"]


def machine() -> None:
    """What the figures were measured on."""
    print(
        f"{platform.python_implementation()} {platform.python_version()}, "
        f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores; "
        f"each row in {ROUNDS} turns of one run, sequential calls, garbage collector on"
    )


def calls(title: str, figures: Sequence[Figures], base: Figures, missing: Iterable[str]) -> None:
    """The cost of each row, and its ratio to the base."""
    rows = [
        (
            figure.row.name,
            f"{figure.median:.2f}",
            f"{figure.least:.2f}",
            f"{figure.ratio(base):.2f}",
            figure.row.includes,
        )
        for figure in figures
    ]
    rows += [(name, "not installed", "", "", "") for name in missing]
    _table(title, ("call", "median µs", "min µs", "ratio", "includes"), rows)


def rates(title: str, figures: Mapping[str, float]) -> None:
    """Throughputs by name, and the part that each has of the first."""
    base = next(iter(figures.values()))
    rows = [(name, f"{each:,.0f}", f"{each / base:.2f}") for name, each in figures.items()]
    _table(title, ("what", "per second", "ratio"), rows)


def seconds(title: str, figures: Mapping[str, float], floor: str | None = None) -> None:
    """Durations by name, and their ratios to the one that is the floor of the others."""
    if floor is None:
        _table(title, ("what", "ms"), [(name, _ms(each)) for name, each in figures.items()])
        return
    base = figures[floor]
    rows = [(name, _ms(each), f"{each / base:.2f}") for name, each in figures.items()]
    _table(title, ("what", "ms", "ratio"), rows)


def _ms(value: float) -> str:
    return f"{value * 1000:.1f}"


def budget(what: str, value: float, limit: float, unit: str) -> bool:
    """Says whether a figure keeps its budget."""
    kept = value <= limit
    verdict = "kept" if kept else "BROKEN"
    print(f"Budget {verdict}: {what}: {value:.3f}{unit} (at most {limit}{unit})")
    return kept


def _table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    widths = [max(len(row[column]) for row in [head, *rows]) for column in range(len(head))]
    print(f"\n{title}\n")
    for row in [head, ["-" * width for width in widths], *rows]:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print(f"| {' | '.join(cells)} |")
    print()
