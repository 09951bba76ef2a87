"""Turning a kept call into a record that may be shown."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from time import process_time
from typing import Any

import pytest

from tests.knowledge.calls import entry_of
from tool_engine.knowledge.entry import bound_entry, record_of, secret_names
from tool_engine.knowledge.snapshot import bounded_text, pack
from tool_engine.model.call import ToolExecutionResult
from tool_engine.model.parameter import ToolParameter
from tool_engine.model.record import CallEntry, ToolCallRecord
from tool_engine.model.tool import Tool, ToolCategory
from tool_engine.redaction import remember_secret


def tool(*parameters: ToolParameter) -> Tool:
    return Tool(
        id="login",
        name="login",
        version="1.2.0",
        description="Logs in",
        category=ToolCategory.CUSTOM,
        tags=[],
        parameters=list(parameters),
        implementation_config={},
        definition_hash="abc",
    )


def entry(params: Any, output: Any, on: Tool | None = None, error: str | None = None) -> CallEntry:
    return entry_of(ToolExecutionResult(error is None, "login", output, error), params, tool=on)


PASSWORD = ToolParameter("secret_word", "string", secret=True)


def test_declared_secrets_are_hidden() -> None:
    """K41: the value of a parameter that is declared secret is in no record."""
    record = record_of(entry({"secret_word": "hunter2", "user": "ann"}, {}, tool(PASSWORD)))
    assert record.params == {"secret_word": "[hidden]", "user": "ann"}
    assert record.tool_version == "1.2.0"
    assert record.definition_hash == "abc"


def test_declared_secret_is_hidden_wherever_it_turns_up() -> None:
    """A tool that repeats a secret parameter in its output or its error shows it to nobody."""
    kept = entry(
        {"secret_word": {"words": ["hunter2"], "pin": 98765, "on": True}, "note": "is hunter2"},
        {"echo": "said hunter2!", "list": ["hunter2"], "pin": 98765, "n": 1, "hunter2": None},
        tool(PASSWORD),
        "no user with hunter2",
    )
    record = record_of(kept)
    assert "hunter2" not in str(record)
    assert "98765" not in str(record)
    assert record.error == "no user with [hidden]"
    assert record.result["n"] == 1
    assert record.params["note"] == "is [hidden]"


def test_secret_that_is_part_of_another() -> None:
    """Where one secret begins another one, the longer is hidden whole."""
    kept = entry({"secret_word": ["open", "open sesame"]}, {"text": "open sesame"}, tool(PASSWORD))
    assert record_of(kept).result == {"text": "[hidden]"}


def test_short_secret_does_not_blank_out_everything() -> None:
    """A secret of under four characters is hidden in its parameter only."""
    record = record_of(entry({"secret_word": "a"}, {"text": "banana"}, tool(PASSWORD)))
    assert record.params == {"secret_word": "[hidden]"}
    assert record.result == {"text": "banana"}


def test_usual_secrets_are_hidden_without_a_tool() -> None:
    """Keys that usually hold secrets, and texts that look like them, are hidden for any tool."""
    record = record_of(
        entry(
            {"api_key": "abc", "url": "https://u:pw@host/"}, {"token": "t"}, None, "sk-" + "a" * 20
        )
    )
    assert record.params == {"api_key": "[hidden]", "url": "https://[hidden]@host/"}
    assert record.result == {"token": "[hidden]"}
    assert record.error == "[hidden]"
    assert record.tool_version is None
    assert record.definition_hash is None


def test_secret_resolved_after_the_call_is_hidden_too() -> None:
    """Hiding happens on reading: what becomes known as a secret later is hidden from then on."""
    kept = entry({"text": "resolved-later-1"}, {"result": "resolved-later-1"})
    assert record_of(kept).result == {"result": "resolved-later-1"}
    remember_secret("resolved-later-1")
    assert "resolved-later-1" not in str(record_of(kept))


def test_secret_names_come_from_the_definition() -> None:
    """Only parameters that say `secret` count; no tool, no names."""
    assert secret_names(tool(PASSWORD, ToolParameter("user", "string"))) == {"secret_word"}
    assert secret_names(None) == frozenset()


@pytest.mark.parametrize("params", ["not a mapping", ["a"], None])
def test_arguments_that_are_no_mapping_are_recorded(params: Any) -> None:
    """A call whose arguments were refused as no mapping is recorded with what it sent."""
    assert record_of(entry(params, {})).params == {"value": params}


def test_output_that_is_no_mapping_is_wrapped() -> None:
    """An output that is no mapping reads as `result`, as in the call's result."""
    assert record_of(entry({}, [1, 2])).result == {"result": [1, 2]}


def test_record_ids_read_as_uuids_and_stay() -> None:
    """K41: an entry's record id is the same each time, unlike any other, and reads as a UUID."""
    first, second = entry({}, {}), entry({}, {})
    assert record_of(first).record_id == first.record_id == record_of(first).record_id
    assert first.record_id != second.record_id
    assert str(uuid.UUID(first.record_id)) == first.record_id


def test_forked_process_has_ids_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """A child process, which inherits the counter, does not repeat its parent's ids."""
    kept = entry({}, {})
    mine = kept.record_id
    monkeypatch.setattr(os, "getpid", lambda: -1)
    assert kept.record_id != mine


def test_foreign_record_is_hidden_on_reading() -> None:
    """A record that was made elsewhere is shown with secrets hidden, like any other."""
    record = ToolCallRecord(
        "r1",
        "login",
        {"password": "p"},
        {"result": "later-known-2"},
        0.1,
        False,
        "later-known-2 failed",
        "a",
        "direct",
        None,
        None,
        datetime.now(UTC),
    )
    remember_secret("later-known-2")
    shown = record_of(record)
    assert shown.record_id == "r1"
    assert shown.params == {"password": "[hidden]"}
    assert shown.result == {"result": "[hidden]"}
    assert shown.error == "[hidden] failed"


LOGIN = ToolParameter(
    "logins",
    "array",
    schema={"items": {"type": "object", "properties": {"word": {"writeOnly": True}}}},
)


def test_misspelt_secret() -> None:
    """D20: what was sent under a name that is nearest to that of a secret is not shown."""
    record = record_of(entry({"secret_wrd": "hunter2", "user": "ann"}, {}, tool(PASSWORD)))
    assert record.params == {"secret_wrd": "[hidden]", "user": "ann"}
    user = ToolParameter("user", "string")
    record = record_of(entry({"usr": "ann", "secret_word": "x"}, {}, tool(PASSWORD, user)))
    assert record.params == {"usr": "ann", "secret_word": "[hidden]"}


def test_arguments_of_a_secret_tool_that_are_one_text() -> None:
    """D20: in a text, the secret cannot be told from the rest."""
    record = record_of(entry('{"secret_word": "hunter2"}', {}, tool(PASSWORD)))
    assert record.params == {"value": "[hidden]"}


def test_secret_parts() -> None:
    """D20: parts that a raw schema marks `writeOnly` are hidden, and the rest is shown."""
    kept = entry(
        {"logins": [{"word": "hunter2", "user": "ann"}], "n": [1]},
        {"said": "hunter2 by ann", "bytes": "68756e74657232"},
        tool(LOGIN),
    )
    record = record_of(kept)
    assert record.params == {"logins": [{"word": "[hidden]", "user": "ann"}], "n": [1]}
    assert record.result == {"said": "[hidden] by ann", "bytes": "[hidden]"}


def test_half_a_secret_at_a_cut() -> None:
    """D20: a text that was cut in the middle of a secret does not end with half of it."""
    secret = "correct-horse-battery-staple"
    text = bounded_text("x" * 16_370 + secret + "y" * 40_000)
    assert "correct-horse-" in text
    record = record_of(entry({"secret_word": secret}, {"a": text}, tool(PASSWORD), text))
    assert "corr" not in str(record)
    assert "characters in all" in record.result["a"]
    plain = bounded_text("y" * 90_000)
    record = record_of(entry({"secret_word": secret}, {"a": plain}, tool(PASSWORD)))
    assert record.result == {"a": plain}


def test_secret_that_is_too_long_to_be_kept() -> None:
    """D20: where the secret itself is cut, it is hidden everywhere before nobody knows it."""
    secret = "0123456789abcdef" * 6_000
    kept = entry({}, {}, tool(PASSWORD), f"no {secret}")
    kept.params = pack({"secret_word": secret})
    kept.result = pack({"a": f"<{secret}>"})
    kept.whole = pack({"a": f"<{secret}>"})
    bound_entry(kept)
    shown = [record_of(kept), record_of(kept, whole=True)]
    assert "0123456789" not in f"{[(each.params, each.result, each.error) for each in shown]}"
    assert record_of(kept, whole=True).result == {"a": "<[hidden]>"}
    assert "0123456789" not in str(record_of(kept).error)
    kept = entry({}, {}, tool(PASSWORD))
    kept.params = pack({"secret_word": secret})
    bound_entry(kept)
    assert record_of(kept).params == {"secret_word": "[hidden]"}


def test_name_that_no_tool_has() -> None:
    """D20: it is text that a model wrote, and may hold anything."""
    kept = entry({}, {})
    kept.tool_name = "login --password hunter2"
    assert record_of(kept).tool_name == "login --password [hidden]"


@pytest.mark.parametrize("size", [11, 300, 40_000])
@pytest.mark.parametrize("spell", [str, lambda text: "".join(f"%25{ord(each):x}" for each in text)])
def test_secret_where_arguments_are_cut(size: int, spell: Callable[[str], str]) -> None:
    """D20: of a secret that stands where a long argument is cut, no half is kept either."""
    secret = "".join(f"Zq{number:x}/" for number in range(size))[:size]
    for before in (0, 16_384 - 3 * size, 16_384 - size, 16_384 - 5, 16_384 - 1):
        kept = entry({}, {}, tool(PASSWORD))
        text = f"{'-' * before}<{spell(secret)}>{'-' * 200_000}"
        kept.params = pack({"secret_word": secret, "note": text})
        kept.result = pack({"said": text})
        bound_entry(kept)
        record = record_of(kept)
        assert record.params["secret_word"] == "[hidden]"
        assert "Zq" not in str(record)
        assert "a2571" not in str(record)  # the same, escaped
        assert "characters in all" in record.params["note"]


@pytest.mark.parametrize("unit", ["%2f%2B", "%252f%252B", "&#47;&#43;", "/+", "%2f%2C"])
def test_long_arguments_are_not_searched_whole(unit: str) -> None:
    """D20: to keep a call does not hold up the event loop, however long its arguments are."""
    kept = entry({}, {}, tool(PASSWORD))
    kept.params = pack({"secret_word": "/+/+", "note": unit * (4_000_000 // len(unit))})
    began = process_time()
    bound_entry(kept)
    # To look through all of it takes one to eight seconds.
    assert process_time() - began < 0.4
    assert unit[:-1] * 2 not in str(record_of(kept).params) or unit == "%2f%2C"


def test_many_long_arguments_that_are_full_of_secrets() -> None:
    """D20: nor if there are many of them: what was not looked at is not kept."""
    kept = entry({}, {}, tool(PASSWORD))
    kept.params = pack({"secret_word": "/+/+", "note": ["%2f%2B" * 3_000] * 200})
    began = process_time()
    bound_entry(kept)
    assert process_time() - began < 0.8
    assert "%2f" not in str(record_of(kept).params)
