"""Is each row of the core feature list named by a test that proves it?"""

from __future__ import annotations

import ast
import re

from tests.meta.sources import ROOT, functions

CORE = {f"K{number}" for number in range(1, 54)}

# "K8", "K8, K9", "K39/K40", and the ranges "K4-K13", "K4–K13" and "K4 to K13".
NAMED = re.compile(r"\bK(\d+)(?:\s*(?:-|–|\.\.|to)\s*K(\d+))?\b")


def rows_in(text: str) -> set[str]:
    """The rows that a docstring names."""
    rows: set[str] = set()
    for first, last in NAMED.findall(text):
        rows |= {f"K{number}" for number in range(int(first), int(last or first) + 1)}
    return rows


def test_rows_in() -> None:
    """Single rows, lists and ranges are read; other words are not."""
    assert rows_in("K8: x. K10-K12, K3/K4; K20 to K21") == {
        *("K3", "K4", "K8", "K10", "K11", "K12", "K20", "K21")
    }
    assert rows_in("OK8, 8 KB, K, KB3") == set()


def test_each_row_is_proven() -> None:
    """K1-K53 are each named by the docstring of at least one test."""
    proven: set[str] = set()
    for path in (ROOT / "tests").rglob("test_*.py"):
        if path.parent.name == "meta" and path.name == "test_features.py":
            continue
        for function in functions(path):
            if function.name.startswith("test_"):
                proven |= rows_in(ast.get_docstring(function) or "")
    missing = sorted(CORE - proven, key=lambda row: int(row[1:]))
    assert missing == [], "no test names these rows in its docstring"
