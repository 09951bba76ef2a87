"""What is a fault that tests must find?"""

from __future__ import annotations

from typing import Final, NamedTuple

ADMISSION: Final = (
    "tests/admission",
    "--ignore=tests/admission/cluster",
    "tests/properties/test_admission_machine.py",
)


class Mutation(NamedTuple):
    """One fault: `old`, which stands in `file` exactly once, becomes `new`."""

    name: str
    file: str
    old: str
    new: str
    suite: tuple[str, ...] = ADMISSION
    """The tests that must find it."""
