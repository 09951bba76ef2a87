"""Do the pictures in the documentation show what the controller does today?"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.browser.pictures import PANES, WIDTHS
from tests.documents.pictures import FOLDER, pictures
from tests.documents.recording import PICTURE, draw_picture


@pytest.mark.parametrize("name", sorted(pictures()))
def test_picture_is_of_a_real_run(name: str) -> None:
    """A picture that differs is drawn anew with `python -m tests.documents.pictures`."""
    assert (FOLDER / name).read_text(encoding="utf-8") == pictures()[name]


def test_no_picture_of_nothing() -> None:
    """Every file in the folder has a run behind it."""
    taken = {f"studio-{name}{ending}.png" for name in PANES for ending in WIDTHS}
    # That one takes longer to draw: tests/admission/load/test_scenarios.py compares it.
    names = {*pictures(), *taken, PICTURE.name, "adaptive-limits.svg"}
    assert {path.name for path in FOLDER.iterdir()} == names


def test_the_first_minute_is_as_it_is_now(tmp_path: Path) -> None:
    """What is drawn anew with `python -m tests.documents.recording`; the demo's figures differ."""
    drawn, kept = draw_picture(tmp_path), PICTURE.read_text(encoding="utf-8")
    part = "tool-engine&#160;demo"
    assert drawn.partition(part)[0].split("<g", 1)[1] == kept.partition(part)[0].split("<g", 1)[1]
    assert "about&#160;" in drawn.partition(part)[2]
    assert "//" not in kept.replace("http://www.w3.org/2000/svg", "")
