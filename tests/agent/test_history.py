"""The messages of a conversation grow by whole units, in the form of their provider."""

from __future__ import annotations

from typing import Any

import pytest

from tests.agent.spoken import WIRES, SpokenModel, faults_of
from tool_engine.agent.history import History
from tool_engine.model.call import ToolCall

every_wire = pytest.mark.parametrize("wire", WIRES)


class SayingModel(SpokenModel):
    """A model that knows how both sides are written."""

    def say(self, role: str, text: str) -> Any:
        """What somebody says."""
        return {"role": role, "content": f"<{text}>"}


@every_wire
def test_what_is_said_twice_is_one_message(wire: str) -> None:
    """Many servers want the sides to take turns."""
    history = History(SpokenModel(wire, []))
    history.begin("Go.")
    before = list(history.messages)
    history.ask("And hurry.")
    assert len(history.messages) == 1
    assert "Go." in str(history.messages[0])
    assert "And hurry." in str(history.messages[0])
    # What was sent already is not changed behind the back of whoever sent it.
    assert "hurry" not in str(before)
    assert faults_of(wire, history.messages) == []


@pytest.mark.parametrize(
    "last",
    [
        {"type": "function_call_output", "call_id": "a", "output": "3"},
        {"role": "user", "content": [{"type": "input_text", "text": "3"}]},
        {"role": "user", "content": None},
        "a message of another world",
    ],
)
def test_what_cannot_take_a_text(last: Any) -> None:
    """Where a message has no place for one more text, the text is a message of its own."""
    history = History(SpokenModel("openai", []))
    history.begin("Go.")
    history.add_calls([{"role": "assistant"}, last])
    history.ask("And hurry.")
    assert history.messages[-2:] == [last, {"role": "user", "content": "And hurry."}]


def test_results_and_a_text() -> None:
    """Messages takes a text behind the results, in the same message."""
    result = {"type": "tool_result", "tool_use_id": "a", "content": "3"}
    history = History(SpokenModel("anthropic", []))
    history.begin("Go.")
    history.add_calls([{"role": "assistant"}, {"role": "user", "content": [result]}])
    history.ask("And hurry.")
    content = history.messages[-1]["content"]
    assert content == [result, {"type": "text", "text": "And hurry."}]


@every_wire
def test_broken_off(wire: str) -> None:
    """A turn in which nothing was said is taken back; of another one the text so far is kept."""
    history = History(SpokenModel(wire, []))
    history.begin("Go.")
    assert history.break_off("", "[stopped]") == []
    assert history.messages == []
    history.begin("Go.")
    added = history.break_off("It is", "[stopped]")
    assert added == history.messages
    assert "It is\\n\\n[stopped]" in str(added[-1])
    assert faults_of(wire, [*history.messages, history._model.user_message("next")]) == []


USED = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": []}
HM = {"type": "text", "text": "Hm."}


def said(*content: Any) -> list[Any]:
    """A reply with these blocks."""
    return [{"role": "assistant", "content": [*content]}]


def paused(*content: Any) -> History:
    """A turn whose reply its provider has paused."""
    history = History(SpokenModel("anthropic", []))
    history.begin("Go.")
    history.pause(said(*content))
    return history


def test_a_paused_reply_and_its_rest_are_one_message() -> None:
    """What the provider says next belongs to the reply that it paused, twice or with calls too."""
    history = paused(HM, USED)
    assert history.messages[-1] == said(HM, USED)[0]
    history.pause(said(FOUND, USED))
    history.add_reply(said(FOUND, HM))
    assert history.messages[1:] == said(HM, USED, FOUND, USED, FOUND, HM)
    history = paused(HM, USED)
    call = {"type": "tool_use", "id": "a", "name": "add", "input": {}}
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a"}]}
    history.add_calls([*said(FOUND, call), result])
    assert history.messages[1:] == [*said(HM, USED, FOUND, call), result]


@pytest.mark.parametrize("content", [[HM, USED], [USED], [HM, USED, FOUND]])
@pytest.mark.parametrize("half", ["", "It is"])
def test_a_pause_that_is_not_continued(content: list[Any], half: str) -> None:
    """Wherever the turn breaks off, or is told something, no call of the provider's waits."""
    history = paused(*content)
    history.break_off(half, "[stopped]")
    assert faults_of("anthropic", [*history.messages, {"role": "user", "content": "x"}]) == []
    assert str(history.messages).count("[stopped]") == 1
    assert half in str(history.messages)
    history = paused(*content)
    history.ask("And hurry.")
    assert faults_of("anthropic", history.messages) == []
    assert "And hurry." in str(history.messages[-1])


@every_wire
def test_a_turn_that_is_taken_back(wire: str) -> None:
    """Nothing of it stays, or a note and an answer in its place; what came before does."""
    history = History(SpokenModel(wire, []))
    history.begin("First.")
    history.break_off("Yes.", "[stopped]")
    before = list(history.messages)
    history.begin("Second.")
    history.add_said("No.")
    assert history.take_back("", "[stopped]") == []
    assert history.messages == before
    history.begin("Second.")
    added = history.take_back("[left out]", "[stopped]")
    assert history.messages == [*before, *added]
    assert "Second" not in str(added)
    assert faults_of(wire, [*history.messages, history._model.user_message("next")]) == []


def test_a_model_that_knows_its_form() -> None:
    """A model that can write its own side is asked to."""
    history = History(SayingModel("openai", []))
    history.begin("Go.")
    history.break_off("It is", "[stopped]")
    assert history.messages[-1] == {"role": "assistant", "content": "<It is\n\n[stopped]>"}


def test_nothing_is_added_for_nothing() -> None:
    """An empty reply leaves no empty message, which providers refuse."""
    history = History(SpokenModel("openai", []))
    history.begin("Go.")
    history.add_reply([])
    history.add_said("")
    assert len(history.messages) == 1
    assert not history.is_said


class _Counting(dict[str, Any]):
    """A message that counts how often somebody looks through it."""

    looks = 0

    def values(self) -> Any:
        """What is in it."""
        self.looks += 1
        return super().values()


def _call() -> ToolCall:
    return ToolCall(call_id="call_0", tool_name="a", arguments={})


def test_an_id_that_stands_twice_is_replaced_and_no_message_is_looked_through_twice() -> None:
    """A42: what a long conversation costs grows with its messages, not with their square."""
    history = History(SpokenModel("openai", []))
    history.begin("Go.")
    said = [_Counting(role="assistant", tool_calls=[{"id": "call_0"}]) for _ in range(20)]
    ids = []
    for each in said:
        message, calls = history.with_new_ids([each], [_call()])
        ids.append(calls[0].call_id)
        history.add_calls(list(message))
    assert ids == ["call_0", *(f"call_0_{number}" for number in range(2, 21))]
    kept = history.messages[1]
    assert isinstance(kept, _Counting)
    assert kept.looks <= 2
    history.is_said = False
    history.break_off("", "")
    again = [_call()]
    assert history.with_new_ids([said[0]], again)[1] is again
