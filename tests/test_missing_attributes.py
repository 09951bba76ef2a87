"""An attribute that a public object has not: the error says where what was meant is."""

from __future__ import annotations

import copy
import pickle
import re
from operator import attrgetter
from typing import Any, Final

import pytest

from tool_engine import AgentLoop, ToolEngine, ToolExecutionResult, ToolSession, ToolSubAgent
from tool_engine.agent.models import RecordedModel
from tool_engine.missing_attributes import _KNOWN

RESULT: Final = ToolExecutionResult(is_success=True, tool_name="echo")
NEAR: Final = {
    "ToolEngine": [
        *("explain", "snapshot", "pause", "drain", "tools_directory", "excute", "get_stats"),
    ],
    "ToolExecutionResult": ["outputs", "error_typ", "is_succes"],
    "ToolSession": ["excute", "list_al", "generate_prompt"],
    "ToolSubAgent": ["excute", "execute_many", "get_summary"],
    "AgentLoop": ["rum", "message", "execute", "list_all"],
}


def make(kind: str) -> Any:
    engine = ToolEngine()
    session = ToolSession(engine, "s")
    return {
        "ToolEngine": engine,
        "ToolExecutionResult": RESULT,
        "ToolSession": session,
        "ToolSubAgent": ToolSubAgent("a", engine),
        "AgentLoop": AgentLoop(session, RecordedModel({"replies": [{"text": "Yes."}]})),
    }[kind]


@pytest.mark.parametrize(
    ("kind", "name"),
    [(kind, name) for kind, names in NEAR.items() for name in (*_KNOWN[kind].meant, *names)],
)
def test_what_is_told_is_there(kind: str, name: str) -> None:
    owner = make(kind)
    with pytest.raises(AttributeError) as raised:
        getattr(owner, name)
    word = _KNOWN[kind].word
    found = re.search(rf"(?:it is {word}\.|did you mean ')([\w.]+)", str(raised.value))
    assert found, raised.value
    attrgetter(found[1])(owner)


@pytest.mark.parametrize("kind", _KNOWN)
@pytest.mark.parametrize("name", ["_private", "__len__", "qqqq"])
def test_nothing_is_made_up(kind: str, name: str) -> None:
    """What is like nothing has Python's own words, and `hasattr` is false."""
    owner = make(kind)
    assert not hasattr(owner, name)
    with pytest.raises(AttributeError, match=rf"no attribute '{name}'$"):
        getattr(owner, name)


def test_a_result_is_copied_as_before() -> None:
    """Copying and pickling ask for names that are not there."""
    packed = pickle.dumps(RESULT)
    assert copy.deepcopy(RESULT) == copy.copy(RESULT) == pickle.loads(packed)  # noqa: S301 - packed here


async def test_an_argument_as_a_keyword() -> None:
    """Python's own words name the method that was called, and not one further in."""
    async with ToolEngine() as engine:
        with pytest.raises(TypeError, match=r"^ToolEngine\.execute\(\) got an unexpected keyword"):
            await engine.execute("echo", message="hi")  # type: ignore[call-arg]


def test_what_is_caught_unread_costs_no_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """`getattr` with a default, as for each result of a call, looks for no near names."""
    searched: list[str] = []

    def search(_: object, name: str) -> str:
        searched.append(name)
        return "searched"

    monkeypatch.setattr("tool_engine.missing_attributes.explain_attribute", search)
    result = ToolExecutionResult(True, "echo", {})
    assert getattr(result, "formatted_text", "") == ""
    assert not hasattr(result, "outputs")
    assert searched == []
    with pytest.raises(AttributeError, match="searched") as caught:
        result.outputs  # type: ignore[attr-defined] # noqa: B018 - what is asked for
    assert (caught.value.name, caught.value.obj) == ("outputs", result)
