"""Do the pictures in the documentation show what the controller does today?"""

from __future__ import annotations

import pytest

from tests.browser.pictures import PANES, WIDTHS
from tests.documents.pictures import FOLDER, pictures


@pytest.mark.parametrize("name", sorted(pictures()))
def test_picture_is_of_a_real_run(name: str) -> None:
    """A picture that differs is drawn anew with `python -m tests.documents.pictures`."""
    assert (FOLDER / name).read_text(encoding="utf-8") == pictures()[name]


def test_no_picture_of_nothing() -> None:
    """Every file in the folder has a run behind it."""
    taken = {f"studio-{name}{ending}.png" for name in PANES for ending in WIDTHS}
    # That one takes longer to draw: tests/admission/load/test_scenarios.py compares it.
    names = {*pictures(), *taken, "adaptive-limits.svg"}
    assert {path.name for path in FOLDER.iterdir()} == names
