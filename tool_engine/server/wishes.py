"""In which form does a client want its answer?"""

from __future__ import annotations

from typing import Final

_EVENTS: Final = "text/event-stream"
_JSON: Final = "application/json"
_HTML: Final = "text/html"
_TASK: Final = "respond-async"


def wants_events(accept: str | None) -> bool:
    """Return True if a client takes a stream of events, and no other answer rather."""
    if accept is None or _EVENTS not in accept.lower():
        return False
    found = _read_list(accept)
    wish = found.get(_EVENTS, 0.0)
    return wish > 0 and wish >= found.get(_JSON, 0.0)


def wants_page(accept: str | None) -> bool:
    """Return True if a client takes a page for people, and JSON not rather: a browser."""
    found = _read_list(accept or "")
    wish = found.get(_HTML, 0.0)
    return wish > 0 and wish >= found.get(_JSON, 0.0)


def wants_task(prefer: str | None) -> bool:
    """Return True if a client prefers that its work goes on without it."""
    return prefer is not None and _TASK in _read_list(prefer)


def _read_list(text: str) -> dict[str, float]:
    """Return the entries of a header in small letters, with how much each is wanted."""
    found = {}
    for part in text.lower().split(","):
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
