"""Has each text of the pages its Chinese, with the same places for values?"""

from __future__ import annotations

import re
import string
import tomllib
from pathlib import Path

import tool_engine.studio
from tool_engine.model.event import PASSING, ToolEngineEventType
from tool_engine.model.task import TASK_STATUSES

HERE = Path(tool_engine.studio.__file__).parent
USED = re.compile(r"""_\(\s*(?:"([^"]+)"|'([^']+)')\s*[,)]""")
"""A text in a template, or in a macro's argument."""


def texts_of_pages() -> set[str]:
    templates = (HERE / "templates").glob("*.html")
    found = {
        first or second
        for path in templates
        for first, second in USED.findall(path.read_text("utf-8"))
    }
    return found | set(
        re.findall(r'^    \("/[^"]*", "([^"]+)"', (HERE / "site.py").read_text(), re.M)
    )


def places_of(text: str) -> list[str]:
    return sorted(name for _, name, _, _ in string.Formatter().parse(text) if name)


def test_each_text_is_there_in_chinese() -> None:
    known = tomllib.loads((HERE / "languages" / "zh.toml").read_text("utf-8"))
    assert sorted(texts_of_pages() - set(known)) == []
    assert {text: said for text, said in known.items() if places_of(text) != places_of(said)} == {}


def test_the_words_of_values_are_there_in_chinese() -> None:
    """States and kinds that the API names are shown in words."""
    known = tomllib.loads((HERE / "languages" / "zh.toml").read_text("utf-8"))
    outcomes = {"succeeded", "failed", "timeout", "cancelled", "rejected", "running"}
    states = {"active", "bypass", "parked", "zombie", "closed", "open", "half_open"}
    effects = {"read", "write", "unknown"}
    calls = {"asking", "queued", "sharing", "pausing", "ended", *TASK_STATUSES}
    events = {each.value for each in ToolEngineEventType if "execution" in each.value}
    happens = events - {each.value for each in PASSING}
    assert (outcomes | states | effects | calls | happens) - set(known) == set()
