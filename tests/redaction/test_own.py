"""Where else do the values stand that one call was sent as secrets, and how are they hidden?"""

from __future__ import annotations

import base64
from typing import Any

import msgspec
import pytest

from tests.contracts.test_approval_storage_contract import request_for
from tool_engine.agent.events import AgentEvent, AgentEventType
from tool_engine.approval.describe import describe, describe_difference
from tool_engine.approval.preview import preview_of, previewed_by
from tool_engine.catalog.loader import ToolConfigLoader
from tool_engine.knowledge.memory_approvals import request_of, shown_of
from tool_engine.model.call import ToolExecutionResult
from tool_engine.model.tool import Tool
from tool_engine.redaction import OwnSecrets, secrets_of
from tool_engine.session.reading.compression import compressed_args
from tool_engine.session.variables.call_variables import keep_call, name_variables
from tool_engine.session.variables.store import VariableStore

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
    keep_call(store, tool(), name_variables("login", 1, store), params, result, frozenset())
    with previewed_by(Previewing(str(params["user"]))):
        preview = await preview_of(tool(), params)
    return {
        "question": describe(asked),
        "kept": str(shown_of(asked)),
        "kept and asked": describe(request_of(shown_of(asked), "s")),
        "event": str(AgentEvent(type=REQUESTED, request=asked).to_dict()),
        "difference": str(
            describe_difference({"pw": SECRET, "user": "u"}, {**params, "pw": "x"}, ["pw"])
        ),
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


MANY = {f"key{number:05}": f"value-{number:05}-{number * 7919}" for number in range(8_000)}


def test_of_very_many_secrets_nothing_else_of_the_call_is_shown() -> None:
    """Above 400 texts each one is hidden unread: to look for all of them would take seconds.

    Looked at: arguments, results, words, beginnings, cuts. The shape stays, and the declared names.
    """
    own = OwnSecrets({"box": MANY, "target": "x"}, ["box"], declared=["box", "target", "is_on"])
    assert own.hides_all
    assert own.params({"box": MANY, "target": "value-00001-7919", "n": 7, "is_on": True}) == {
        "box": "[hidden]",
        "target": "[hidden]",
        "[hidden]": "[hidden]",
        "is_on": True,
    }
    assert own.value({"result": ["value-00001-7919", 7, None, ()]}) == {
        "result": ["[hidden]", "[hidden]", None, []]
    }
    for hide in (own.text, own.hide_text, own.hide, own.beginning):
        assert (hide("no value-00001-7919"), hide("")) == ("[hidden]", "")
    assert not own.splits("no value-00001-7919", 10)


def test_of_as_many_secrets_as_are_looked_for_each_is_found() -> None:
    """Of many values each is found in its forms, and what is none of them is shown."""
    few = dict(list(MANY.items())[:128])
    own = OwnSecrets({"box": few}, ["box"], declared=["box"])
    assert not own.hides_all
    for key, text in few.items():
        coded = base64.b64encode(text.encode()).decode()
        shown = own.text(f"{key} is {text}, {text.encode().hex()} and {coded}")
        assert shown == "[hidden] is [hidden], [hidden] and [hidden]"
    assert own.text(f"value-{9_000} is shown") == "value-9000 is shown"
    short = OwnSecrets({"box": [*few.values(), "abc"]}, ["box"], shortest=1)
    assert short.text("abcd") == "[hidden]d"


def test_long_secrets_are_looked_for_up_to_a_number_of_characters() -> None:
    """What is too long for other forms is looked for as it is; of much else, nothing is shown."""
    assert not OwnSecrets({"a": "x" * 1_000_000}, ["a"]).hides_all
    assert OwnSecrets({"a": [f"{number:010}" * 1_000 for number in range(20)]}, ["a"]).hides_all
