"""What does a protocol read in a model's reply?"""

from __future__ import annotations

from typing import Any, Final

from tool_engine.access.problem import Problem
from tool_engine.protocols.arguments.strict_json import RefusedJSONError, read_json
from tool_engine.studio.visit import Page, Visit, show_at

_MOST_MARKED: Final = 100
"""Places of a reply that are marked."""
_SAMPLES: Final = {
    "vcp": "Let me look.\n<<<[TOOL_REQUEST]>>>\ntool_name:「始」echo「末」,\n"
    "message:「始」hello「末」\n<<<[END_TOOL_REQUEST]>>>",
    "function_call": 'Let me look.\n<function_call>{"name": "echo", "arguments": '
    '{"message": "hello"}}</function_call>',
}
"""What a page that has no reply yet shows as an example."""


@show_at("GET", "/parser", scope="read")
async def show_parser(visit: Visit) -> Page:
    """Show a form for a reply."""
    protocols = await _list_protocols(visit)
    usual = next((name for name in _SAMPLES if name in protocols), protocols[0])
    protocol = visit.query.get("protocol") or usual
    reply = visit.query.get("reply", "") or _SAMPLES.get(protocol, "")
    return Page("parser.html", _fill_page(protocols, protocol, reply, None))


@show_at("POST", "/parser", scope="read")
async def read_reply(visit: Visit) -> Page:
    """Show the text, the calls, the findings and the repairs of a reply; run nothing."""
    protocol, reply = visit.form.get("protocol"), visit.form.get("reply")
    # A browser sends lines as mail does; a model writes them as they are here.
    reply = reply.replace("\r\n", "\n")
    try:
        body = {"protocol": protocol, "reply": _take_object(reply)}
        found = await visit.api.post("/v1/replies", body=body)
    except Problem as problem:
        values = _fill_page(await _list_protocols(visit), protocol, reply, None)
        return Page("parser.html", {**values, "problem": problem}, problem.status)
    values = _fill_page(await _list_protocols(visit), protocol, reply, found)
    return Page("parser_found.html" if visit.is_partial else "parser.html", values)


def _fill_page(protocols: list[str], protocol: str, reply: str, found: Any) -> dict[str, Any]:
    return {
        "protocols": protocols,
        "protocol": protocol,
        "reply": reply,
        "found": found,
        "marked": None if found is None else _mark_places(reply, found),
        "problem": None,
    }


def _take_object(reply: str) -> Any:
    """Return a reply as the object of a provider, where it is one, else as the text that it is.

    Raises:
        Problem: It is JSON that different readers would take for different values.
    """
    if not reply.lstrip().startswith(("{", "[")):
        return reply
    try:
        return read_json(reply)
    except RefusedJSONError as error:
        detail = f"the reply can be read in two ways, or in none: {error}"
        raise Problem(422, "invalid-form", detail) from error
    except (ValueError, RecursionError):
        return reply


async def _list_protocols(visit: Visit) -> list[str]:
    found: list[str] = (await visit.api.get("/v1/protocols"))["items"]
    return found


def _mark_places(reply: str, found: Any) -> list[tuple[str, list[str]]]:
    """Return a reply in parts, each with the marks of what begins where it does.

    A mark is the number of a finding, or the name of a tool whose call was repaired.
    """
    starts = _find_calls(reply, found["calls"])
    places: dict[int, list[str]] = {}
    for number, each in enumerate(found["findings"][:_MOST_MARKED], 1):
        place = each["position"]
        if place is None:
            place = starts.get(each["call_id"])
        if place is not None:
            places.setdefault(min(place, len(reply)), []).append(str(number))
    for call in found["calls"][:_MOST_MARKED]:
        if call["repairs"] and call["call_id"] in starts:
            places.setdefault(starts[call["call_id"]], []).append(call["tool_name"])
    parts, before = [], 0
    for place in [*sorted(places), len(reply)]:
        if place > before or place not in places:
            parts.append((reply[before:place], places.get(before, [])))
            before = place
    if before in places and before == len(reply):
        parts.append(("", places[before]))
    return parts


def _find_calls(reply: str, calls: list[Any]) -> dict[str, int]:
    """Return where each call begins that stands in a reply as it was written."""
    starts, before = {}, 0
    for call in calls:
        place = reply.find(call["raw"], before) if call["raw"] else -1
        if place >= 0:
            starts[call["call_id"]] = place
            before = place + len(call["raw"])
    return starts


ROUTES = (show_parser, read_reply)
