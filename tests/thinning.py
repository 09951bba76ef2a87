"""Which combinations of a test that is marked as `thinned` does a run try?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import pytest

from tests.effort import is_tried

__all__ = ["list_tried"]

Row = tuple[int, ...]


def list_tried(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Those of the tests that are no combination which is left out."""
    lists: dict[object, dict[Row, int]] = defaultdict(dict)
    """Of each list of a test, where each of its rows stands."""
    tried = []
    for item in items:
        mark = item.get_closest_marker("thinned")
        if mark is None:
            tried.append(item)
            continue
        test = item.parent, item.originalname  # type: ignore[attr-defined]
        positions = []
        for names, row in _rows_of(item).items():
            rows = lists[test, names]
            positions.append(rows.setdefault(row, len(rows)))
        if is_tried(positions, *mark.args):
            tried.append(item)
    return tried


def _rows_of(item: pytest.Item) -> dict[tuple[str, ...], Row]:
    """What stands for it in each list of parameters; a fixture has a list of its own."""
    params = dict(item.callspec.params)  # type: ignore[attr-defined]
    rows = {}
    for mark in item.iter_markers("parametrize"):
        found = mark.args[0].split(",") if isinstance(mark.args[0], str) else mark.args[0]
        names = tuple(name.strip() for name in found)
        rows[names] = tuple(id(params.pop(name)) for name in names)
    return rows | {(name,): (id(value),) for name, value in params.items()}
