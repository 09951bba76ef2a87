"""Where else do the values stand that one call was sent as secrets, and how are they hidden?"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.contracts.test_approval_storage_contract import request_for
from tool_engine.agent.events import AgentEvent, AgentEventType
from tool_engine.approval.describe import describe, difference
from tool_engine.approval.preview import preview_of, previewed_by
from tool_engine.catalog.loader import ToolConfigLoader
from tool_engine.knowledge.approvals import request_of, shown_of
from tool_engine.model.call import ToolExecutionResult
from tool_engine.model.tool import Tool
from tool_engine.redaction import OwnSecrets, secrets_of
from tool_engine.session.reading.compression import compressed_args
from tool_engine.session.variables.store import VariableStore
from tool_engine.session.variables.variable_tools import keep_call, names_of_call

REQUESTED = AgentEventType.APPROVAL_REQUESTED
SECRET = "Tr0ub4dor&3"
PLACES: dict[str, Any] = {
    "as another argument": SECRET,
    "in a text": f"log in with {SECRET}, please",
    "in a list": ["x", {"y": [SECRET]}],
    "as a key": {SECRET: 1},
    "percent-encoded": "https://x/?p=Tr0ub4dor%263",
    "in base64": "VHIwdWI0ZG9yJjM=",
}


def tool() -> Tool:
    secret = {"name": "pw", "type": "string", "description": "P", "secret": True}
    return ToolConfigLoader().from_mapping(
        {"name": "login", "description": "Logs in.", "parameters": [secret]}
    )


class Previewing:
    def __init__(self, text: str) -> None:
        self._text = text

    def preview(self, tool: Tool, params: dict[str, Any]) -> str:
        return self._text


async def texts_of(params: dict[str, Any]) -> dict[str, str]:
    """What is shown of a call, and of the question about it, in all places."""
    asked = request_for(
        params=params,
        secret_names=("pw",),
        preview=f"+ {params['user']}",
        result=f"hello {params['user']}",
    )
    store = VariableStore()
    result = ToolExecutionResult(is_success=False, tool_name="login", output={})
    keep_call(store, tool(), names_of_call("login", 1, store), params, result, frozenset())
    with previewed_by(Previewing(str(params["user"]))):
        preview = await preview_of(tool(), params)
    return {
        "question": describe(asked),
        "kept": str(shown_of(asked)),
        "kept and asked": describe(request_of(shown_of(asked), "s")),
        "event": str(AgentEvent(type=REQUESTED, request=asked).to_dict()),
        "difference": str(difference({"pw": SECRET, "user": "u"}, {**params, "pw": "x"}, ["pw"])),
        "preview": str(preview),
        "variable": store.get("login_1_args").text,
        "log": compressed_args(params, None, tool()),
    }


@pytest.mark.parametrize("place", PLACES)
async def test_a_secret_that_stands_somewhere_else_too(place: str) -> None:
    """The value of a secret argument is hidden wherever it is shown, not only under its name.

    Looked at: the question in words, as an event and as it is kept, its preview, its result, what
    is other than last time, the variable with the arguments, the line of a log.
    """
    value = PLACES[place]
    shown = await texts_of({"pw": SECRET, "user": value, "n": 7})
    told = value if isinstance(value, str) else SECRET
    assert {name for name, text in shown.items() if SECRET in text or told in text} == set()
    assert all("7" in shown[name] for name in ("question", "kept", "event", "variable", "log"))


async def test_what_has_no_secret_stays_as_it_is() -> None:
    """Where nothing was sent as a secret, a value is shown, but where it was one the last time."""
    shown = await texts_of({"user": SECRET})
    assert {name for name, text in shown.items() if SECRET not in text} == {"difference"}


def test_a_misspelt_secret_is_not_kept_in_a_variable() -> None:
    """What was sent under a name that is nearly that of a secret is one."""
    named = msgspec.structs.replace(
        tool(), parameters=[msgspec.structs.replace(tool().parameters[0], name="passphrase")]
    )
    params = {"passphrse": SECRET, "user": SECRET}
    assert SECRET not in str(secrets_of(named, params).params(params))


def test_keys_that_become_one_are_kept_apart() -> None:
    """No argument is lost because two of them are secrets."""
    own = OwnSecrets({"a": "11111111", "b": "22222222"}, ["a", "b"])
    assert len(own.hide({"11111111": 1, "22222222": 2, "c": 3})) == 3


def test_what_is_deep_or_short() -> None:
    """What is nested without end is no crash; a short value stands in every second text."""
    deep: Any = "x"
    for _ in range(5_000):
        deep = [deep]
    own = OwnSecrets({"a": deep, "b": "abc"}, ["a", "b"], ["c"])
    own.hide(deep)
    assert own.text("abcd") == "abcd"
    assert OwnSecrets({"b": "abc"}, ["b"], shortest=1).text("abcd") == "[hidden]d"
    assert OwnSecrets({"b": 12345}, ["b"]).hide([12345, 1, True, None]) == [
        "[hidden]",
        1,
        True,
        None,
    ]
