"""Is each row of the feature lists of the core and of sessions named by a test that proves it?"""

from __future__ import annotations

import ast
import re

from tests.meta.sources import ROOT, functions

# "K8", "K8, K9", "K39/K40", and the ranges "K4-K13", "K4–K13" and "K4 to K13".
NAMED = re.compile(r"\b([ADKRSUX])(\d+)(?:\s*(?:-|–|\.\.|to)\s*\1(\d+))?\b")


def rows_in(text: str) -> set[str]:
    """The rows that a docstring names."""
    rows: set[str] = set()
    for letter, first, last in NAMED.findall(text):
        rows |= {f"{letter}{number}" for number in range(int(first), int(last or first) + 1)}
    return rows


CORE = rows_in("K1-K53")
SESSIONS = rows_in(
    "A4-A12, A23-A26, A29, A40-A42, S1-S35, R1, R13, R14, D15, D18-D20, X1, X3, X4, U32-U41 U46 U47"
)


def test_rows_in() -> None:
    """Single rows, lists and ranges are read; other words are not."""
    assert rows_in("K8: x. K10-K12, K3/K4; K20 to K21") == {
        *("K3", "K4", "K8", "K10", "K11", "K12", "K20", "K21")
    }
    assert rows_in("S2, A4-A6") == {"S2", "A4", "A5", "A6"}
    assert rows_in("OK8, 8 KB, K, KB3, SS7") == set()


def test_each_row_is_proven() -> None:
    """Each row of the core and of sessions is named by the docstring of at least one test."""
    proven: set[str] = set()
    for path in (ROOT / "tests").rglob("test_*.py"):
        if path.parent.name == "meta" and path.name == "test_features.py":
            continue
        if not NAMED.search(path.read_text(encoding="utf-8")):
            continue
        for function in functions(path):
            if function.name.startswith("test_"):
                proven |= rows_in(ast.get_docstring(function) or "")
    missing = sorted((CORE | SESSIONS) - proven, key=lambda row: (row[0], int(row[1:])))
    assert missing == [], "no test names these rows in its docstring"
