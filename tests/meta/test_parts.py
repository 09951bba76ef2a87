"""Is each file of tests in exactly one part of `make test`, and does each room of a list exist?"""

from __future__ import annotations

from collections import Counter

from tests.__main__ import (
    IN_MEMORY,
    NOT_QUICK,
    PARTS,
    TESTS,
    list_test_files,
    parts_of,
    quick_parts,
)
from tests.meta.sources import ROOT

FILES = list_test_files()


def test_each_file_is_in_one_part() -> None:
    """No file is left out or run twice, and no part is empty."""
    parts = parts_of(FILES)
    counts = Counter(file for part in parts for file in part.files)
    assert counts == Counter(str(file.relative_to(ROOT)) for file in FILES)
    assert all(part.files for part in parts)


def test_what_is_named_exists() -> None:
    """A room or a file that was renamed is found in the lists by its old name."""
    assert [room for room in (*PARTS, *IN_MEMORY) if not (TESTS / room).is_dir()] == []
    assert [pattern for pattern in NOT_QUICK if not any(f.match(pattern) for f in FILES)] == []


def test_quick() -> None:
    """What is quick is most of the rooms in memory, and nothing else."""
    quick = [file for part in quick_parts(FILES) for file in part.files]
    assert len(quick) == len(set(quick)) > 150
    assert {file.split("/")[1] for file in quick} == set(IN_MEMORY)
