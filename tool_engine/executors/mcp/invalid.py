"""What is wrong with an answer that is none of the protocol, in words of ours?"""

from __future__ import annotations

from typing import Final

from pydantic import ValidationError

NO_MESSAGE: Final = "its answer is no message of the protocol"


def describe_unread(error: ValidationError) -> str:
    """Return why a line is no message, of which pydantic says what each kind of one lacks."""
    if error.errors(include_url=False)[0]["type"] == "json_invalid":
        return f"its answer cannot be read: {describe_invalid(error)}"
    return NO_MESSAGE


def describe_invalid(error: ValidationError) -> str:
    """Return the first thing that is wrong with an answer, in one line."""
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    place = ".".join(str(each) for each in first["loc"])
    what = "is missing" if first["type"] == "missing" else first["msg"].replace("Input ", "", 1)
    if first["type"] == "json_invalid":
        return f"it is no JSON ({first['msg'].partition(': ')[2]})"
    return f"{place or 'it'} {what}" if what[:1].islower() else f"{place or 'it'}: {what}"
