"""Does every row of docs/security.md name a test that there is?"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
ROWS = [
    [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
    for line in TEXT.splitlines()
    if line.startswith("|")
]
LISTS = {
    "LLM": [f"LLM{number:02}" for number in range(1, 11)],
    "T": [f"T{number}" for number in range(1, 16)],
    "ASI": [f"ASI{number:02}" for number in range(1, 11)],
}
UNTOUCHED = {"LLM08", "T15"}
"""Risks in which an engine for tools has no part."""


def defined_in(path: Path) -> set[str]:
    names = re.findall(
        r"^(?:async )?def (test_\w+)|^    (?:async )?def (test_\w+)",
        path.read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    return {plain or inner for plain, inner in names}


ALL = {name for path in (ROOT / "tests").rglob("test_*.py") for name in defined_in(path)}


def attacks() -> list[list[str]]:
    return [row for row in ROWS if len(row) == 4 and row[0] not in ("attack", "---")]


def test_there_are_rows() -> None:
    """D20: the tables are found, and there are many attacks in them."""
    assert len(attacks()) > 60


@pytest.mark.parametrize("row", attacks(), ids=lambda row: row[0][:40])
def test_every_attack_is_shown(row: list[str]) -> None:
    """D20: no control is claimed without a test in which the attack runs."""
    assert "test_" in row[-1] or row[-1] == "the same"


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`(test_\w+)`", TEXT))))
def test_named_tests_exist(name: str) -> None:
    """D20: a test that was renamed is renamed in the document, too."""
    assert name in ALL


@pytest.mark.parametrize("place", sorted(set(re.findall(r"`([\w/]+\.py::\w+)`", TEXT))))
def test_named_places_exist(place: str) -> None:
    """D20: the same for tests that are named with their file."""
    path, _, name = place.partition("::")
    assert name in defined_in(ROOT / "tests" / path)


@pytest.mark.parametrize("path", sorted(set(re.findall(r"`(tests/[\w/.]+)`", TEXT))))
def test_named_files_exist(path: str) -> None:
    """D20: the files and folders that are named are there."""
    assert (ROOT / path).exists()


@pytest.mark.parametrize("name", LISTS)
def test_lists_are_whole(name: str) -> None:
    """D20: each list of OWASP stands there whole, in its order, each row with a test."""
    rows = [row for row in ROWS if re.fullmatch(rf"{name}\d+", row[0])]
    assert [row[0] for row in rows] == LISTS[name]
    assert all(len(row) == 5 and all(row) for row in rows)
    assert {row[0] for row in rows if "::test_" not in row[-1]} <= UNTOUCHED
