"""In which form does a client want its answer?"""

from __future__ import annotations

import re
from typing import Final

_EVENTS: Final = "text/event-stream"
_JSON: Final = ("application/json", "application/*", "*/*")
"""What stands for JSON; of those that a client names the first one decides."""
_HTML: Final = "text/html"
_TASK: Final = "respond-async"
_ENTRY: Final = re.compile(r'(?:[^,"]|"(?:[^"\\]|\\.)*")+')
"""An entry of a list, in which a comma in quotes is a letter as others."""


def wants_events(accept: str | None) -> bool:
    """Return True if a client takes a stream of events, and no other answer rather."""
    return accept is not None and _is_preferred(accept, _EVENTS)


def wants_page(accept: str | None) -> bool:
    """Return True if a client takes a page for people, and JSON not rather: a browser."""
    return accept is not None and _is_preferred(accept, _HTML)


def wants_task(prefer: str | None) -> bool:
    """Return True if a client prefers that its work goes on without it."""
    if prefer is None:
        return False
    names = [each.group().partition(";")[0].strip().lower() for each in _ENTRY.finditer(prefer)]
    # An empty value is none, as RFC 7240 says.
    return any(each.partition("=")[::2] in ((_TASK, ""), (_TASK, '""')) for each in names)


def has_tag(known: str | None, tag: str) -> bool:
    """Return True if a client has what a tag stands for, by the tags of its `If-None-Match`.

    A proxy that packs an answer makes its tag a weak one (RFC 9110, 8.8.3 and 13.1.2).
    """
    found = [] if known is None else [each.strip() for each in _ENTRY.findall(known)]
    return "*" in found or any(each.removeprefix("W/") == tag for each in found)


def _is_preferred(accept: str, form: str) -> bool:
    """Return True if a client names a form, and wants JSON no more than that."""
    if form not in accept.lower():
        return False
    wishes = _read_wishes(accept)
    of_json = next((wishes[each] for each in _JSON if each in wishes), 0.0)
    wish = wishes.get(form, 0.0)
    return wish > 0 and wish >= of_json


def _read_wishes(text: str) -> dict[str, float]:
    """Return the entries of a header in small letters, with how much each is wanted."""
    found = {}
    for part in _ENTRY.findall(text.lower()):
        name, *parameters = (each.strip() for each in part.split(";"))
        found[name] = 1.0
        for each in parameters:
            key, _, value = each.partition("=")
            if key.strip() == "q":
                found[name] = _read_wish(value)
    return found


def _read_wish(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0
