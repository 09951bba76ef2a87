"""What is shown of a conversation, event by event."""

from __future__ import annotations

import io
from typing import Any

import msgspec
import pytest
from rich.console import Console

from tests.approval.people import TOOL
from tool_engine.agent.answer import AgentAnswer, StopReason
from tool_engine.agent.events import AgentEvent, AgentEventType
from tool_engine.approval.book import ApprovalBook
from tool_engine.cli.chat.chat_view import JSONView, PlainView, TerminalView
from tool_engine.model.approval import ApprovalRequest
from tool_engine.model.call import ToolExecutionResult
from tool_engine.model.parameter import ToolParameter
from tool_engine.model.progress import ToolProgress
from tool_engine.redaction import secrets_of
from tool_engine.session.bounds import Usage

CALL: dict[str, Any] = {"tool_call_id": "1", "tool_call_name": "pay"}


def request_of(secret: str = "") -> ApprovalRequest:
    request = ApprovalBook("s").ask(TOOL, {"amount": 5, "password": secret})
    assert request.token
    return request


def ended(text: str = "done") -> AgentEvent:
    result = ToolExecutionResult(True, "pay", {"result": text})
    return AgentEvent(type=AgentEventType.TOOL_RESULT, result=result, **CALL)


def begun(arguments: str = "{}") -> AgentEvent:
    return AgentEvent(
        type=AgentEventType.TOOL_CALL_END, tool_call_arguments_complete=arguments, **CALL
    )


def content(text: str) -> AgentEvent:
    return AgentEvent(type=AgentEventType.CONTENT_CHUNK, content=text)


@pytest.mark.parametrize("kind", [PlainView, TerminalView])
def test_nothing_is_shown_beside_a_question(
    kind: type[PlainView], capsys: pytest.CaptureFixture[str]
) -> None:
    """While somebody is asked, what else happens is not shown until they have answered."""
    view, request, other = kind(lambda _: TOOL), request_of(), request_of()
    view.hear(AgentEvent(type=AgentEventType.APPROVAL_REQUESTED, request=request))
    view.hear(AgentEvent(type=AgentEventType.APPROVAL_REQUESTED, request=other))
    view.hear(begun())
    view.hear(ended())
    view.hear(AgentEvent(type=AgentEventType.APPROVAL_ANSWERED, request=request))
    assert capsys.readouterr() == ("", "")
    view.hear(AgentEvent(type=AgentEventType.APPROVAL_ANSWERED, request=other))
    assert capsys.readouterr().err == "→ pay({})\n← pay: done (0.00 s)\n"


def test_turn_breaks_off_at_a_question(capsys: pytest.CaptureFixture[str]) -> None:
    """What was held back is told, and the next turn is not held back."""
    view = PlainView(lambda _: TOOL)
    view.hear(AgentEvent(type=AgentEventType.APPROVAL_REQUESTED, request=request_of()))
    view.hear(ended())
    view.cancelled()
    view.hear(ended("more"))
    shown = capsys.readouterr().err
    assert shown.splitlines() == [
        "← pay: done (0.00 s)",
        "the turn was cancelled",
        "← pay: more (0.00 s)",
    ]


@pytest.mark.parametrize(("seconds", "shown"), [(0.0, ""), (1.5, " (1.50 s)")])
def test_no_time_is_made_up(capsys: pytest.CaptureFixture[str], seconds: float, shown: str) -> None:
    """A call that its turn did not wait for, or that never ran, has not taken 0.00 s."""
    result = ToolExecutionResult(
        False, "pay", error="gone", error_type="cancelled", execution_time=seconds
    )
    event = AgentEvent(type=AgentEventType.TOOL_RESULT, result=result, **CALL)
    PlainView(lambda _: TOOL).hear(event)
    told = capsys.readouterr().err
    assert told == f"← pay: Error (cancelled): gone{shown}\n"


def test_lines_stay_whole(capsys: pytest.CaptureFixture[str]) -> None:
    """A note is never in the middle of a line of the answer; an empty chunk changes nothing."""
    view = PlainView(lambda _: None)
    for text in ("a", "", "b"):
        view.hear(content(text))
    view.hear(begun("[no object"))
    view.hear(content("c\n"))
    view.failed("bad\x07")
    out, err = capsys.readouterr()
    assert out == "ab\nc\n"
    assert err == "→ pay([no object)\nerror: bad\\x07\n"


@pytest.mark.parametrize("kind", [PlainView, TerminalView])
def test_each_round_begins_on_a_line_of_its_own(
    kind: type[PlainView], capsys: pytest.CaptureFixture[str]
) -> None:
    """Half a reply and the one that was asked for instead are two texts; a sub-agent has none."""
    view = kind(lambda _: None)
    view.hear(content("half an"))
    for parent in ("call-1", None):
        view.hear(AgentEvent(type=AgentEventType.ROUND_STARTED, parent_call_id=parent))
        view.hear(content(" answer"))
    assert capsys.readouterr().out == "half an answer\n answer"


@pytest.mark.parametrize(
    ("calls", "shown"), [(9, [*["→ pay"] * 9]), (10, [*["→ pay"] * 8, "… and 2 more"])]
)
def test_panel_fits_on_the_terminal(calls: int, shown: list[str]) -> None:
    """What has scrolled off cannot be taken back: a line for each call, and not too many lines."""
    view = TerminalView(lambda _: None)
    view.hear(AgentEvent(type=AgentEventType.ROUND_STARTED))
    for number in range(calls):
        call = {**CALL, "tool_call_id": str(number)}
        arguments = '{"text": "' + "many words " * 9 + '"}'
        view.hear(
            AgentEvent(
                type=AgentEventType.TOOL_CALL_END, tool_call_arguments_complete=arguments, **call
            )
        )
    console = Console(width=30, height=10, file=io.StringIO())
    with console.capture() as capture:
        console.print(view._make_panel(console.size))
    lines = capture.get().splitlines()
    assert [line[: len(begin)] for line, begin in zip(lines, shown, strict=True)] == shown
    assert lines[0].rstrip().endswith("…  0.0 s")


def test_panel_shows_progress() -> None:
    """Beside its call, on the same line, whatever the tool says; with the result it is gone."""
    view = TerminalView(lambda _: None)
    view.hear(AgentEvent(type=AgentEventType.ROUND_STARTED))
    call = {**CALL, "tool_call_id": "1"}
    view.hear(
        AgentEvent(type=AgentEventType.TOOL_CALL_END, tool_call_arguments_complete="{}", **call)
    )
    for name, said in (("1", "half\n\x1b[2J way"), ("2", "of a call that is not there")):
        progress = ToolProgress(1, 2, said)
        kind = AgentEventType.TOOL_PROGRESS
        view.hear(AgentEvent(type=kind, progress=progress, **{**CALL, "tool_call_id": name}))
    console = Console(width=120, height=10, file=io.StringIO())
    with console.capture() as capture:
        console.print(view._make_panel(console.size))
    (line,) = capture.get().splitlines()
    assert "50%  1 of 2  half \\x1b[2J way" in line
    view.hear(AgentEvent(type=AgentEventType.TOOL_RESULT, result=ended("x").result, **call))
    assert (view._running, view._progress) == ({}, {})


@pytest.mark.parametrize("kind", [PlainView, TerminalView])
def test_the_calls_of_a_sub_agent_stand_below_its_own(
    kind: type[PlainView], capsys: pytest.CaptureFixture[str]
) -> None:
    """Whether or not a panel shows what runs; ids of parent and child may be alike."""
    view, done = kind(lambda _: None), ended("x").result
    task: dict[str, Any] = {"tool_call_id": "1", "tool_call_name": "call_sub_agent"}
    parts: list[dict[str, Any]] = [
        {"tool_call_id": each, "tool_call_name": "pay", "parent_call_id": "1"} for each in "12"
    ]
    for call in (task, *parts):
        words: dict[str, Any] = {"tool_call_arguments_complete": "{}", **call}
        view.hear(AgentEvent(type=AgentEventType.TOOL_CALL_END, **words))
    for call in (*parts, task):
        view.hear(AgentEvent(type=AgentEventType.TOOL_RESULT, result=done, **call))
    view.answered(AgentAnswer(text="", stop_reason=StopReason.COMPLETED, usage=Usage()))
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "→ call_sub_agent({})"
    assert sorted(lines[1:-1])[:2] == ["  ← pay: x (0.00 s)"] * 2
    assert lines[-1].startswith("← call_sub_agent: ")


def test_long_and_hostile_words_are_cut(capsys: pytest.CaptureFixture[str]) -> None:
    """A model's name for a tool, its arguments and a result take one line each."""
    view = PlainView(lambda _: None)
    name = "x\x1b[2J\n" * 1_000
    view.hear(
        AgentEvent(
            type=AgentEventType.TOOL_CALL_END,
            tool_call_name=name,
            tool_call_arguments_complete='{"a": "' + "y" * 9_000 + '"}',
        )
    )
    view.hear(ended("z\n" * 9_000))
    first, second = capsys.readouterr().err.splitlines()
    assert "\x1b" not in first
    assert max(len(first), len(second)) < 600


@pytest.mark.parametrize("kind", [PlainView, TerminalView])
def test_result_repeats_no_secret_argument(
    kind: type[PlainView], capsys: pytest.CaptureFixture[str]
) -> None:
    """A tool that tells what it was given tells no secret of it, whether it succeeds or fails."""
    password = ToolParameter(name="word", type="string", description="The word", secret=True)
    tool = msgspec.structs.replace(TOOL, parameters=[password])
    view = kind(lambda _: tool)
    secrets = (secrets_of(tool, {"word": "open sesame!"}),)
    for result in (
        ToolExecutionResult(True, "pay", {"said": "open sesame!"}),
        ToolExecutionResult(False, "pay", {}, "no 'open sesame!'", "execution_error"),
    ):
        view.hear(begun('{"word": "open sesame!"}'))
        view.hear(
            AgentEvent(type=AgentEventType.TOOL_RESULT, result=result, _secrets=secrets, **CALL)
        )
    view.failed("over")
    shown = capsys.readouterr().err
    assert "sesame" not in shown
    assert shown.count("[hidden]") == 4


def test_secret_of_a_question_is_no_line_of_json(capsys: pytest.CaptureFixture[str]) -> None:
    """A program reads what is asked, and what to answer with, but no secret."""
    request = request_of("hunter2-made-up")
    JSONView().hear(AgentEvent(type=AgentEventType.APPROVAL_REQUESTED, request=request))
    out = capsys.readouterr().out
    assert request.token in out
    assert "hunter2" not in out


@pytest.mark.parametrize("reason", [each for each in StopReason if each != "completed"])
def test_a_turn_that_breaks_off(reason: StopReason, capsys: pytest.CaptureFixture[str]) -> None:
    """The reason has the name that programs read, and what to say or to set next."""
    PlainView(lambda _: None).answered(AgentAnswer(text="", stop_reason=reason, usage=Usage()))
    head, _, cure = capsys.readouterr().err.partition(": ")
    assert head == f"the turn ended ({reason.value})"
    assert "; " in cure or ", or " in cure
