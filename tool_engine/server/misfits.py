"""What is wrong with a value that does not fit its operation, and what does fit?"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, get_args, get_origin

import msgspec

from tool_engine.model.checks.nearness import suggest_near

Fields = Callable[[type[msgspec.Struct]], Mapping[str, Any]]
"""Returns the type of each field of a class, without None."""
_UNKNOWN: Final = re.compile(r"Object contains unknown field `(?P<name>.*?)`")
_MISSING: Final = re.compile(r"Object missing required field `(?P<name>.*?)`")
_LONGEST: Final = 400
"""Characters of what is wrong."""
_CHOICE: Final = "Invalid enum value"
_PLACE: Final = re.compile(r" - at `(?P<place>[^`]*)`$")


def explain_misfit(error: msgspec.ValidationError, kind: Any, fields: Fields) -> str:
    """Return what is wrong with a value and, after a semicolon, what fits.

    Args:
        error: What msgspec says of it.
        kind: The type that it does not fit.
        fields: Lists the fields of a class.
    """
    text = _shorten_text(str(error))
    place = _PLACE.search(text)
    part = _find_part(kind, "" if place is None else place["place"], fields)
    if (found := _UNKNOWN.match(text)) is not None:
        known = list(fields(part)) if _is_class(part) else []
        near = suggest_near(found["name"], known)
        return text + (near or f"; leave it out, or give one of {', '.join(known)}")
    if (found := _MISSING.match(text)) is not None:
        return f"{text}; add it"
    if text.startswith(_CHOICE) and get_origin(part) is Literal:
        return f"{text}; give one of {', '.join(map(repr, get_args(part)))}"
    return f"{text}; give such a one, as /openapi.json describes it"


def _shorten_text(text: str) -> str:
    """Return what msgspec says without most of a long value: the place and the cure are read."""
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST // 2]}…{text[-_LONGEST // 2 :]}"


def _is_class(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _find_part(kind: Any, place: str, fields: Fields) -> Any:
    """Return the type of a part of a value, such as `$.steps[...].name`; None: it is not known."""
    for name in re.findall(r"\.(\w+)", place):
        kind = fields(kind).get(name) if _is_class(kind) else None
        if get_origin(kind) in (list, tuple, dict):
            kind = get_args(kind)[-1]
    return kind
