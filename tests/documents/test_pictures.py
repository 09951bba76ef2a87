"""Do the pictures in the documentation show what the controller does today?"""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

import pytest

from tests.browser.pictures import PANES, WIDTHS
from tests.documents.pictures import FOLDER, pictures
from tests.documents.recording import DEMO, PICTURE, draw_demo, draw_picture, run_demo


@pytest.mark.parametrize("name", sorted(pictures()))
def test_picture_is_of_a_real_run(name: str) -> None:
    """A picture that differs is drawn anew with `python -m tests.documents.pictures`."""
    assert (FOLDER / name).read_text(encoding="utf-8") == pictures()[name]


def test_no_picture_of_nothing() -> None:
    """Every file in the folder has a run behind it."""
    taken = {f"studio-{name}{ending}.png" for name in PANES for ending in WIDTHS}
    # That one takes longer to draw: tests/admission/load/test_scenarios.py compares it.
    names = {*pictures(), *taken, PICTURE.name, DEMO.name, "adaptive-limits.svg"}
    assert {path.name for path in FOLDER.iterdir()} == names


@pytest.fixture(scope="module")
def demo() -> str:
    return run_demo()


def test_the_first_minute_is_as_it_is_now(tmp_path: Path, demo: str) -> None:
    """What is drawn anew with `python -m tests.documents.recording`; the demo's figures differ."""
    drawn, kept = draw_picture(tmp_path, demo), PICTURE.read_text(encoding="utf-8")
    part = "tool-engine&#160;demo"
    assert drawn.partition(part)[0].split("<g", 1)[1] == kept.partition(part)[0].split("<g", 1)[1]
    assert "about&#160;" in drawn.partition(part)[2]
    assert "//" not in kept.replace("http://www.w3.org/2000/svg", "")


def find_promises(picture: str) -> list[str]:
    """The titles, the steps and the kept promises of a picture of the demo, without figures."""
    lines = [
        line.replace("\xa0", " ") for line in re.findall(r">([^<\n]*)</text>", unescape(picture))
    ]
    return [
        re.sub(r"\d+", "#", line)
        for line in lines
        if re.match(r" *ok: |\d\. | *tool-engine ", line)
    ]


def test_the_recording_of_the_demo_is_as_it_is_now(demo: str) -> None:
    """The same steps, promises and next commands; it reaches for nothing beside itself."""
    drawn, kept = draw_demo(demo), DEMO.read_text(encoding="utf-8")
    assert len(find_promises(drawn)) > 25
    assert find_promises(drawn) == find_promises(kept)
    assert "NOT" not in kept
    assert not re.search(r"href|url\(|<script", kept)
