"""Is what is not released yet written so that people who upgrade can read it?"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PARTS = ("Added", "Changed", "Fixed", "Safety")
AREAS = (
    "Definitions",
    "Catalog",
    "Admission",
    "Executors",
    "Records and events",
    "Sessions",
    "Models and protocols",
    "MCP",
    "HTTP server and tasks",
    "Studio",
    "Cluster",
    "Fleet",
    "Frameworks",
    "Command line",
    "Docs",
)
MOST_WORDS = 60
MOST_IN_ALL = 5_000
"""A note of more words is read by hardly anyone; entries that belong together become one."""


def find_faults(text: str) -> list[str]:
    """Return what is wrong with the form of the entries under Unreleased."""
    _, _, rest = text.partition("## Unreleased\n")
    notes = re.split(r"^## ", rest, maxsplit=1, flags=re.MULTILINE)[0]
    wrong, place, area, seen = [], "", "", set[str]()
    for block in re.split(r"\n(?=- |#|\n)", notes):
        entry = " ".join(block.split())
        if entry.startswith("#"):
            marks, _, title = entry.partition(" ")
            place, area = (title, "") if marks == "###" else (place, title)
            known = AREAS if area else PARTS
            if not (title in known or (not area and title.startswith("Upgrade"))):
                wrong.append(f"the heading {title!r} is none of {', '.join(known)}")
        elif entry.startswith("- "):
            words = len(re.sub(r"\]\([^)]*\)", "]", entry[2:]).split())
            if not place or (place == "Added" and not area):
                wrong.append(f"stands under no heading: {entry[:60]}")
            if words > MOST_WORDS:
                wrong.append(f"has {words} words, where {MOST_WORDS} are the most: {entry[:60]}")
            if entry in seen:
                wrong.append(f"stands there twice: {entry[:60]}")
            seen.add(entry)
    if len(notes.split()) > MOST_IN_ALL:
        wrong.append(f"{len(notes.split())} words, where {MOST_IN_ALL} are the most")
    return wrong


def test_entries() -> None:
    """They are short, and each stands with those that are near it."""
    assert find_faults((ROOT / "docs" / "changelog.md").read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("notes", "fault"),
    [
        ("- One.\n", "stands under no heading: - One."),
        ("### Added\n\n- One.\n", "stands under no heading: - One."),
        ("### Mended\n\n", "the heading 'Mended' is none of Added, Changed, Fixed, Safety"),
        ("### Fixed\n\n- One.\n- Two.\n- One.\n", "stands there twice: - One."),
        (f"### Fixed\n\n- One.\n- {'a ' * 61}\n", "has 61 words, where 60 are the most: - a"),
        (f"### Fixed\n\n{'a ' * 6000}\n", "6002 words, where 5000 are the most"),
    ],
)
def test_what_is_wrong_with_them(notes: str, fault: str) -> None:
    """Each fault is found, and a released version is left as it is."""
    text = f"# Changelog\n\n## Unreleased\n\n{notes}\n## 0.1.0\n\n- One.\n"
    [found] = find_faults(text)
    assert found.startswith(fault)


def test_a_form_that_is_right() -> None:
    """Headings of areas, entries over several lines, and links, which count by their words."""
    text = (
        "## Unreleased\n\n### Upgrade from 1.0\n\n- Do [this](a.md\n  ).\n\n### Added\n\n"
        f"#### MCP\n\n- {'a ' * 58}\n  [b](c.md) d\n"
    )
    assert find_faults(text) == []
