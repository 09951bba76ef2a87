"""Is the page of messages what the code says?"""

from __future__ import annotations

import re

from tests.contracts.test_every_cure import cures
from tests.meta.messages import PAGE, page, read_messages
from tests.meta.sources import PACKAGE


def test_the_page_is_true() -> None:
    """The page of messages is what `python -m tests.meta.messages` writes."""
    assert PAGE.read_text(encoding="utf-8") == page(), "run: python -m tests.meta.messages"


def test_what_stands_in_a_definition_is_described() -> None:
    """Who reads an entry says what was found in words: a list may hold a password."""
    files = [each for each in (PACKAGE / "executors").rglob("*.py") if "entry" in each.name]
    assert len(files) > 10
    whole = re.compile(r"got \{[^}]*!r")
    assert [str(each) for each in files if whole.search(each.read_text("utf-8"))] == []


def test_every_cure_is_found_there() -> None:
    """Each cure that a test tries stands on the page, beside the words of its message."""
    listed = {cure for _, _, cure in read_messages()}
    tried = {row.partition(": ")[2] for row in cures()}
    assert tried - listed == set()
    shown = re.sub(r"\s+", " ", PAGE.read_text(encoding="utf-8"))
    assert {
        each for each in tried if " ".join(each.split()).replace("|", "\\|") not in shown
    } == set()
