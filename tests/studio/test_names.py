"""Does each link of the studio lead to its place, whatever stands in its name?"""

from __future__ import annotations

import html
import re
from urllib.parse import unquote

import pytest
from yarl import URL

from tests.studio.conftest import Browser
from tool_engine import ToolEngine
from tool_engine.studio.path_parts import quote_part, read_part, write_part

NAMES = [
    *("a/b", "/", "../../v1/tools", "..", ".", "~", "~YQ", "a%2fb", "a%2Fb", "%2e%2e", "a#b"),
    *("a?b=c", "a&b=<c>", "a b+c", "a\\b", "x\u202egnp", "x\u200by", "{}", "{session_id}"),
    *("对话", "a\nb", '"'),
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_a_part_of_a_path(name: str) -> None:
    """It is one part, that nothing on the way changes, and that gives the name again."""
    part = quote_part(name)
    assert re.fullmatch("[A-Za-z0-9_.~%-]+", part)
    assert unquote(part) not in (".", "..")
    assert not re.search(r"[/\\]", unquote(part))
    assert read_part(unquote(part)) == name
    assert read_part(write_part(name)) == name


@pytest.mark.parametrize("part", ["~", "~!", "~é", "~gA", "a~"])
def test_a_part_that_none_wrote(part: str) -> None:
    assert read_part(part) in (part, "")


async def test_links_to_sessions(olga: Browser, engine: ToolEngine) -> None:
    """Each row of the list leads to its own session."""
    for name in NAMES:
        await engine.store.sessions.save(name, {"variables": {"variables": [{"name": "v"}]}})
    listed = await olga.open("/studio/sessions")
    links = re.findall(r'<a href="(/studio/sessions/[^"]*)"><bdi>', listed.text)
    assert len(set(links)) == len(NAMES)
    for name, link in zip(reversed(NAMES), links, strict=True):
        shown = await olga.open(html.unescape(link))
        assert (shown.status, "Variables" in shown.words) == (200, True), name
        own = re.search(r'href="(/studio/history\?session=[^"]*)"', shown.text)
        assert own
        assert URL(html.unescape(own[1]), encoded=True).query["session"] == name
