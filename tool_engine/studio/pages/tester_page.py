"""What does a tool do with these arguments?"""

from __future__ import annotations

import json
import secrets
import shlex
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from hashlib import sha256
from math import inf
from typing import Any, Final

import msgspec

from tool_engine.access.problem import Problem
from tool_engine.model.outcome import outcome_of
from tool_engine.protocols.arguments.strict_json import RefusedJSONError, read_json
from tool_engine.studio.forms.controls import make_form
from tool_engine.studio.forms.fields import fill_fields, write_json
from tool_engine.studio.forms.form_changes import change_fields
from tool_engine.studio.forms.reading import Arguments, Fault, read_arguments, take_files
from tool_engine.studio.path_parts import write_part
from tool_engine.studio.visit import Move, Page, PageAnswer, Pieces, Visit, show_at

_LAST: Final = "10"
"""Calls of one's own that are listed."""
_MOST_NAMES: Final = 1_000
"""Tools that are suggested while one types."""
_LONGEST_LINK: Final = 4_000
"""Characters of arguments that an address holds."""
_PREFIX: Final = "a:"
"""Before the names of fields that hold arguments; others are of the page."""


class Trial(msgspec.Struct):
    """What is filled in on the page."""

    name: str
    mode: str
    """`form` or `json`."""
    fields: dict[str, str]
    text: str
    """The arguments as JSON, in the mode `json`."""
    timeout: str
    conversation: str


@show_at("GET", "/tester", scope="call")
async def show_tester(visit: Visit) -> Page:
    """Show the form of a tool, filled in as the address says."""
    query = visit.query
    name, mode = query.get("tool", "").strip(), query.get("mode", "form")
    arguments, problem = await _find_arguments(visit)
    tool = None
    if name:
        try:
            tool = await visit.api.get("/v1/tools/{}", name)
        except Problem as error:
            problem = error
    fields = {} if tool is None else fill_fields(tool["input_schema"], arguments or {})
    is_raw = "j:" in fields
    if is_raw:
        fields, mode = {}, "json"
    trial = Trial(
        name,
        "json" if mode == "json" else "form",
        fields,
        write_json(arguments or {}),
        query.get("timeout", ""),
        query.get("conversation", ""),
    )
    return await _show_page(visit, trial, tool, problem=problem)


@show_at("POST", "/tester/form", scope="call")
async def change_form(visit: Visit) -> Page:
    """Show the form after a part was added, removed or opened, or in its other mode."""
    trial = _read_trial(visit)
    tool = await visit.api.get("/v1/tools/{}", trial.name)
    schema = tool["input_schema"]
    faults: list[Fault] = []
    wanted = visit.form.get("mode_wanted", trial.mode)
    if wanted != trial.mode:
        said = _read_said(trial, schema)
        faults = said.faults
        if not (trial.mode == "json" and faults):
            trial.text, trial.fields = write_json(said.value), fill_fields(schema, said.value)
            trial.mode = "json" if wanted == "json" or "j:" in trial.fields else "form"
    else:
        trial.fields = change_fields(trial.fields, visit.form.get("change"))
    if visit.is_partial:
        return Page("tester_form.html", _fill_form(trial, tool, faults))
    return await _show_page(visit, trial, tool, faults)


@show_at("POST", "/tester/run", scope="call")
async def run_tool(visit: Visit) -> PageAnswer:
    """Call the tool, and show what happens as it happens, or the task that it is left to."""
    trial = _read_trial(visit)
    tool = await visit.api.get("/v1/tools/{}", trial.name)
    said = _read_said(trial, tool["input_schema"])
    if not said.faults and not isinstance(said.value, dict):
        said.faults.append(Fault("", "the arguments are one JSON object"))
    if said.faults:
        values = _fill_form(trial, tool, said.faults)
        if visit.is_partial:
            return Page("tester_refused.html", values)
        return await _show_page(visit, trial, tool, said.faults)
    body: dict[str, Any] = {"arguments": said.value}
    if trial.timeout.strip():
        body["timeout"] = _read_timeout(trial.timeout)
    if trial.conversation.strip():
        body["conversation_id"] = trial.conversation.strip()
    wishes = _make_key(visit, tool["name"], body)
    if visit.form.get("as") == "task":
        wishes["prefer"] = "respond-async"
        task = await visit.api.post("/v1/tools/{}/calls", tool["name"], body=body, headers=wishes)
        return Move(f"/tasks/{write_part(task['id'])}")
    if visit.is_partial:
        return Pieces(_follow_call(visit, tool, body))
    result = await visit.api.post("/v1/tools/{}/calls", tool["name"], body=body, headers=wishes)
    return await _show_page(visit, trial, tool, result=_describe_result(visit, tool, body, result))


def _make_key(visit: Visit, name: str, body: Any) -> dict[str, str]:
    """Return the header by which a form that is sent twice is one call.

    A script sees to that itself, and its page sends the same form for each of several calls. What
    is called belongs to the key: a form that is filled in otherwise is another call.
    """
    once = visit.form.get("once")
    if visit.is_partial or not once:
        return {}
    said = json.dumps([once, name, visit.form.get("as"), body])
    return {"idempotency-key": sha256(said.encode()).hexdigest()}


async def _find_arguments(visit: Visit) -> tuple[Any, Problem | None]:
    """Return the arguments that an address names: JSON, or those of a call that was made."""
    call_id, text = visit.query.get("call", ""), visit.query.get("arguments", "")
    try:
        if call_id:
            record = (await visit.api.get("/v1/calls/{}", call_id))["record"]
            return (None if record is None else record["params"]), None
        return (read_json(text) if text else None), None
    except Problem as problem:
        return None, problem
    except RefusedJSONError as error:
        detail = f"the arguments in the address can be read in two ways, or in none: {error}"
        return None, Problem(422, "invalid-form", detail)
    except (ValueError, RecursionError):
        return None, Problem(422, "invalid-form", "the arguments in the address are no JSON")


def _read_trial(visit: Visit) -> Trial:
    """Return what was filled in.

    Raises:
        Problem: A file is no text, and was to be read as one.
    """
    form = visit.form
    fields = {
        name.removeprefix(_PREFIX): value
        for name, value in reversed(form.fields)
        if name.startswith(_PREFIX)
    }
    files = {
        name.removeprefix(_PREFIX): data
        for name, sent in form.files.items()
        for _, data in sent[:1]
        if data
    }
    try:
        # A file is sent once: its contents stand in the form that is shown next.
        fields = take_files(fields, files)
    except ValueError:
        detail = "a file is no text in UTF-8; take it as base64, or as text of another file"
        raise Problem(422, "invalid-form", detail) from None
    return Trial(
        form.get("tool").strip(),
        "json" if form.get("mode") == "json" else "form",
        fields,
        form.get("arguments").replace("\r\n", "\n"),
        form.get("timeout"),
        form.get("conversation"),
    )


def _read_said(trial: Trial, schema: Mapping[str, Any]) -> Arguments:
    if trial.mode == "json":
        return read_arguments({}, {"j:": trial.text or "{}"})
    return read_arguments(schema, trial.fields)


def _read_timeout(text: str) -> float:
    with suppress(ValueError):
        if 0 < float(text) < inf:
            return float(text)
    raise Problem(422, "invalid-form", "the time limit is a number of seconds, such as 30")


def _fill_form(trial: Trial, tool: Any, faults: list[Fault]) -> dict[str, Any]:
    is_json = trial.mode == "json"
    form = None if is_json else make_form(tool["input_schema"], trial.fields, faults)
    return {
        "trial": trial,
        "tool": tool,
        "form": form,
        "faults": faults,
        "newline": "\n",
        "once": secrets.token_urlsafe(12),
        "prefix": _PREFIX,
    }


async def _show_page(
    visit: Visit,
    trial: Trial,
    tool: Any,
    faults: list[Fault] | None = None,
    problem: Problem | None = None,
    result: Any = None,
) -> Page:
    found = await visit.api.get("/v1/tools", query={"limit": str(_MOST_NAMES)})
    values = {
        **({"trial": trial} if tool is None else _fill_form(trial, tool, faults or [])),
        "tool": tool,
        "names": [each["name"] for each in found["items"]],
        **await _list_last(visit, trial.conversation.strip()),
        "problem": problem,
        "shown": result,
    }
    status = 200 if problem is None else problem.status
    return Page("tester.html", values, status)


async def _list_last(visit: Visit, conversation: str) -> dict[str, Any]:
    """Return the newest calls of one's own, or of a conversation; or why they cannot be read."""
    if not visit.principal.may("read"):
        return {"last": [], "unread": None}
    query = {"limit": _LAST, "caller_id": visit.principal.name, "conversation_id": conversation}
    found, problem = await visit.api.find("/v1/records", query=query)
    items = [] if found is None else found["items"]
    last = [{**each, "outcome": outcome_of(each["error_type"]).value} for each in items]
    return {"last": last, "unread": problem}


async def _follow_call(visit: Visit, tool: Any, body: Any) -> AsyncIterator[Page]:
    """Yield what the page shows of a call, whenever something happened to it."""
    shown: dict[str, Any] = {"call_id": None, "state": "sent", "progress": None, "events": []}
    yield Page("tester_running.html", {"shown": shown})
    try:
        async with visit.api.stream(
            "POST", "/v1/tools/{}/calls", tool["name"], body=body
        ) as events:
            async for name, data in events:
                if name == "result":
                    found = _describe_result(visit, tool, body, data)
                    last = await _list_last(visit, str(body.get("conversation_id", "")))
                    values = {"shown": found, "events": shown["events"], **last}
                    yield Page("tester_done.html", values)
                    return
                _note_event(shown, name, data)
                yield Page("tester_running.html", {"shown": shown})
    except Problem as problem:
        yield Page("problem_part.html", {"problem": problem})


def _note_event(shown: dict[str, Any], name: str, data: Any) -> None:
    shown["call_id"] = data.get("call_id") or shown["call_id"]
    shown["events"].append({"name": name, "at": data.get("timestamp")})
    del shown["events"][:-50]
    if name == "execution_progress":
        shown["progress"] = data["data"]
    else:
        shown["state"] = name


def _describe_result(visit: Visit, tool: Any, body: Any, result: Any) -> dict[str, Any]:
    metadata = result.get("metadata") or {}
    arguments = json.dumps(body["arguments"], ensure_ascii=False)
    return {
        "result": result,
        "call_id": metadata.get("call_id"),
        "outcome": outcome_of(result.get("error_type")).value,
        "link": visit.link("/tester", {"tool": tool["name"], "arguments": arguments})
        if len(arguments) <= _LONGEST_LINK
        else None,
        "copies": _write_copies(visit.address, tool["name"], body),
    }


def _write_copies(address: str, name: str, body: Any) -> list[tuple[str, str]]:
    """Return the same call in other forms, by what each is called."""
    data = json.dumps(body, ensure_ascii=False)
    curl = (
        f"curl -X POST {shlex.quote(f'{address}/v1/tools/{name}/calls')} \\\n"
        "  -H 'Content-Type: application/json' -H \"Authorization: Bearer $TOKEN\" \\\n"
        f"  -d {shlex.quote(data)}"
    )
    python = f"result = await engine.execute({name!r}, {body['arguments']!r})"
    test = "tests:\n  - name: as tried\n    params: " + json.dumps(
        body["arguments"], ensure_ascii=False
    )
    return [("curl", curl), ("Python", python), ("YAML", test)]


ROUTES = (show_tester, change_form, run_tool)
