"""Gemini's generateContent: definitions, whole replies, results and history."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from google.genai import types
from msgspec.structs import replace

from tests.protocols.wire_gemini import call_part, chunk, render_reply
from tool_engine.errors import ConfigurationError
from tool_engine.model.call import ToolCall, ToolExecutionResult
from tool_engine.model.parameter import ToolParameter
from tool_engine.model.reply import ParsedReply
from tool_engine.model.tool import Tool, ToolCategory
from tool_engine.protocols.gemini import GeminiProtocol, gemini_decoder

TOOL = Tool(
    id="getTime",
    name="getTime",
    version="1.0.0",
    description="获取特定时间偏移量的时间戳（毫秒）",
    category=ToolCategory.CUSTOM,
    tags=[],
    parameters=[
        ToolParameter(
            "offset_ms", "number", required=True, description="相对于当前时间的毫秒偏移量"
        )
    ],
    implementation_config={},
)
SEED = json.loads((Path(__file__).parents[1] / "get_time" / "gemini.json").read_text("utf-8"))
SIGNATURE = base64.b64encode(b"\xff\xfe signed").decode()


@pytest.fixture
def gemini() -> GeminiProtocol:
    return GeminiProtocol(tools=[TOOL])


def result(output: Any, error_type: str | None = None, name: str = "getTime") -> Any:
    is_success = error_type is None
    return ToolExecutionResult(
        is_success=is_success,
        tool_name=name,
        output=output if isinstance(output, dict) else {"result": output},
        error=None if is_success else str(output),
        error_type=error_type,
    )


def problems(reply: ParsedReply) -> list[tuple[str, str]]:
    return [(each.error_type, each.level) for each in reply.findings]


def test_the_exchange_of_the_seed(gemini: GeminiProtocol) -> None:
    """D7, D22, X9: getTime(offset_ms=-86400000) in Gemini's format, there and back."""
    assert gemini.definitions([TOOL]) == SEED["definitions"]
    openapi = GeminiProtocol(schema="openapi")
    assert openapi.definitions([TOOL]) == SEED["openapi_definitions"]
    types.Tool.model_validate(SEED["openapi_definitions"][0])
    reply = gemini.parse(SEED["reply"])
    (call,) = reply.calls
    assert (call.tool_name, call.arguments) == ("getTime", {"offset_ms": -86400000})
    assert call.is_runnable
    assert reply.findings == []
    assert reply.message == [SEED["reply"]]
    assert gemini.format_results([result(1684713600000)], reply.calls) == SEED["results"]
    # The seed's own answer is no object, which the API refuses: it is taken, and goes back right.
    assert gemini.parse(SEED["seed_results"]).message == SEED["results"]
    assert gemini.parse(SEED["seed_results"]).findings == []


def test_every_form_of_a_whole_reply(gemini: GeminiProtocol) -> None:
    """An SDK's object, mappings in both cases, text, bytes, a candidate: all say the same."""
    calls = [ToolCall(call_id="c1", tool_name="getTime", arguments={"offset_ms": None, "x": 1.0})]
    reply = render_reply(calls, "Let me see.")
    as_object = types.GenerateContentResponse.model_validate(reply)
    text = json.dumps(reply)
    stream = "".join(f"data: {json.dumps(each)}\n\n" for each in [reply])
    forms: list[Any] = [
        *(reply, as_object, text, text.encode(), [reply], [as_object], iter([reply]), stream),
        *(as_object.model_dump(), as_object.model_dump(mode="json", by_alias=True)),
        *(
            {"response": reply},
            f"  [{text}]",
            text.encode("utf-8-sig"),
            stream + "data: [DONE]\n\n",
        ),
    ]
    expected = gemini.parse(reply)
    assert expected.text == "Let me see."
    assert expected.calls[0].arguments == {"offset_ms": None, "x": 1.0}
    assert expected.calls[0].call_id == "c1"
    assert expected.usage["totalTokenCount"] == 12
    assert expected.stop_reason == "STOP"
    assert expected.findings == []
    for form in forms:
        read = gemini.parse(form)
        assert replace(read, usage=expected.usage) == expected
    assert gemini.parse(reply["candidates"][0]).calls == expected.calls
    assert gemini.parse(reply["candidates"][0]["content"]).calls == expected.calls
    assert gemini.parse(reply["candidates"][0]["content"]["parts"]).calls == expected.calls


def test_signatures_go_back_with_their_parts(gemini: GeminiProtocol) -> None:
    """A `thoughtSignature` stays on the part that it came with, on an empty text too."""
    parts = [
        {"text": "Hm", "thought": True},
        {"text": ", yes", "thought": True},
        {"text": "I "},
        {"text": "look."},
        {"functionCall": {"name": "getTime", "args": {}}, "thoughtSignature": SIGNATURE},
        {"functionCall": {"name": "getTime", "args": {"offset_ms": 1}}},
        {"text": "", "thoughtSignature": SIGNATURE},
    ]
    reply = gemini.parse([chunk([part]) for part in parts[:-1]] + [chunk(parts[-1:], "STOP")])
    (content,) = reply.message
    assert content == {
        "role": "model",
        "parts": [
            {"text": "Hm, yes", "thought": True},
            {"text": "I look."},
            parts[4],
            parts[5],
            parts[6],
        ],
    }
    assert (reply.reasoning, reply.text) == ("Hm, yes", "I look.")
    signed = types.Content.model_validate(content).parts
    assert signed is not None
    assert signed[2].thought_signature == b"\xff\xfe signed"
    again = gemini.parse(types.Content.model_validate(content).model_dump())
    # The SDK's own dump has the bytes of it.
    assert again.message[0]["parts"][2] == parts[4]


def test_a_text_without_letters_does_not_go_back(gemini: GeminiProtocol) -> None:
    """The API refuses an empty text, with which many of its own streams end."""
    reply = gemini.parse([chunk([{"text": "a"}]), chunk([{"text": ""}], "STOP")])
    assert reply.message == [{"role": "model", "parts": [{"text": "a"}]}]
    assert gemini.parse(chunk([{"text": ""}, {}], "STOP")).message == []


def test_signed_texts_are_not_joined(gemini: GeminiProtocol) -> None:
    """A text with a signature, or with anything else beside it, stays a part of its own."""
    parts = [
        {"text": "a"},
        {"text": "b", "thoughtSignature": SIGNATURE},
        {"text": "c"},
        {"text": "d", "thought": True},
        {"text": "e", "partMetadata": {"k": 1}},
        {"text": "f"},
    ]
    reply = gemini.parse([chunk([part]) for part in parts] + [chunk([{"text": "g"}], "STOP")])
    assert reply.message[0]["parts"] == [*parts[:-1], {"text": "fg"}]
    assert (reply.text, reply.reasoning) == ("abcefg", "d")


def test_parts_that_are_not_ours_stay_in_the_message(gemini: GeminiProtocol) -> None:
    """Code that Google runs, and its own tools, are kept for the history and not called."""
    parts = [
        {"executableCode": {"language": "PYTHON", "code": "print(1)"}},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}},
        {"toolCall": {"id": "s", "toolType": "GOOGLE_SEARCH"}},
        {"inlineData": {"mimeType": "image/png", "data": "AAAA"}},
        {"text": "one"},
    ]
    reply = gemini.parse(chunk(parts, "STOP"))
    assert reply.calls == []
    assert reply.message == [{"role": "model", "parts": parts}]
    assert (reply.text, reply.findings) == ("one", [])


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        *(
            (each, "refusal")
            for each in ("SAFETY", "RECITATION", "OTHER", "LANGUAGE", "ESCALATION")
        ),
        *((each, "malformed_reply") for each in ("MALFORMED_FUNCTION_CALL", "TOO_MANY_TOOL_CALLS")),
        ("UNEXPECTED_TOOL_CALL", "malformed_reply"),
    ],
)
def test_a_reply_that_the_provider_stopped(gemini: GeminiProtocol, reason: str, kind: str) -> None:
    """What was stopped is an error finding, and the call that may be half of it is not run."""
    first, second = (
        {"functionCall": {"name": "getTime", "args": {"offset_ms": n}}} for n in (1, 2)
    )
    reply = gemini.parse(chunk([first, second], reason))
    assert [call.is_runnable for call in reply.calls] == [True, False]
    assert (kind, "error") in problems(reply)
    assert reply.stop_reason == reason
    assert bool(reply.refusal) is (kind == "refusal")
    told = {"candidates": [{"finishReason": reason, "finishMessage": "because"}]}
    (finding, *_) = gemini.parse(told).findings
    assert finding.error_type == kind
    assert finding.message.endswith(f"({reason}): because")


@pytest.mark.parametrize("reason", ["MAX_TOKENS", "CONTINUATION", 2, "length", "max_tokens"])
def test_the_last_call_of_a_cut_reply_is_not_run(gemini: GeminiProtocol, reason: Any) -> None:
    """U47: what a limit cut may be half of what was meant, however closed it looks."""
    parts = [{"functionCall": {"name": "getTime", "args": {"offset_ms": n}}} for n in (1, 2)]
    reply = gemini.parse(chunk(parts, reason))
    assert [call.complete for call in reply.calls] == [True, False]
    assert problems(reply) == [("truncated", "error")]
    behind = gemini.parse(chunk([*parts, {"text": "and"}], reason))
    assert [call.complete for call in behind.calls] == [True, True]
    assert problems(behind) == [("truncated", "warning")]


def test_a_blocked_prompt(gemini: GeminiProtocol) -> None:
    """A prompt that was blocked is a refusal, said once."""
    blocked = {"promptFeedback": {"blockReason": "SAFETY", "blockReasonMessage": "no"}}
    reply = gemini.parse([blocked, blocked])
    assert problems(reply) == [("refusal", "error")]
    assert reply.refusal == "the prompt was blocked (SAFETY): no"
    assert reply.stop_reason == "SAFETY"
    unsaid = gemini.parse([{"promptFeedback": {}}, chunk([{"text": "Hi"}], "STOP")])
    assert (unsaid.text, unsaid.findings) == ("Hi", [])


def test_an_unknown_reason(gemini: GeminiProtocol) -> None:
    """A reason that is yet to come is told, and is no refusal: what is whole is used."""
    part = call_part(ToolCall(call_id="x", tool_name="getTime", arguments={"offset_ms": 1}))
    for reason in ("BRAND_NEW", 77):
        reply = gemini.parse(chunk([{"text": "Hi"}, part], reason))  # type: ignore[arg-type]
        assert (reply.text, reply.refusal, reply.calls[0].is_runnable) == ("Hi", None, True)
        assert problems(reply) == [("malformed_reply", "warning")]
        assert str(reason) in reply.findings[0].message


def test_every_reason_of_the_sdk_is_known() -> None:
    """What the official SDK knows as the end of a reply is no unknown reason here."""
    known = {*gemini_decoder._ENDINGS, *gemini_decoder._MALFORMED, *gemini_decoder._REFUSALS}
    named = {each.value for each in types.FinishReason}
    assert named - known == {"FINISH_REASON_UNSPECIFIED"}


def test_a_reply_that_nobody_ended(gemini: GeminiProtocol) -> None:
    """Without a reason of its end, calls that came whole are run, and it is said."""
    part = call_part(ToolCall(call_id="x", tool_name="getTime", arguments={"offset_ms": 1}))
    for reason in (None, "FINISH_REASON_UNSPECIFIED", 0):
        reply = gemini.parse(chunk([part], reason))  # type: ignore[arg-type]
        assert reply.calls[0].is_runnable
        assert problems(reply) == [("truncated", "warning")]


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        ("", "empty"),
        ([], "empty"),
        ("event: ping\n\n", "empty"),
        ({"candidates": []}, "empty"),
        ({"usageMetadata": {"totalTokenCount": 1}}, "empty"),
        (None, "nothing that Gemini says"),
        (7, "nothing that Gemini says"),
        ({}, "nothing that Gemini says"),
        ({"choices": []}, "one of the protocol 'openai', not of 'gemini'; read it with that one"),
        ({"candidates": {}}, "must be a list"),
        ({"candidates": [None]}, "must be an object"),
        (chunk([None]), "must be an object"),
        (chunk([{"functionCall": 3}]), "must be an object"),
        (chunk([{"functionCall": {"name": "getTime", "partialArgs": {}}}]), "must be an object"),
        (chunk([{"text": 3}]), "must be a string"),
        ({"candidates": [{"content": {"parts": {}}}]}, "an object with parts"),
        ({"candidates": [{"content": "x"}]}, "an object with parts"),
        (
            {"error": {"code": 429, "message": "slow down", "status": "EXHAUSTED"}},
            "EXHAUSTED: slow",
        ),
        ({"error": "broken"}, "error: broken"),
        ('[{"candidates": [', "no JSON"),
        (b"\xff\xfe{}", "empty"),
        (b'{"candidates": "\xff"}', "no UTF-8"),
        ('{"a": ' * 5000, "no JSON"),
        (ValueError("broken"), "nothing that Gemini says"),
    ],
)
def test_what_is_no_reply(gemini: GeminiProtocol, reply: Any, message: str) -> None:
    """A27: garbage, error bodies and nothing at all are error findings, never an exception."""
    read = gemini.parse(reply)
    assert read.calls == []
    assert read.message == []
    assert any(each.level == "error" and message in each.message for each in read.findings)


def test_calls_where_there_are_none(gemini: GeminiProtocol) -> None:
    """A call in a thought, or in what the user says, is not run."""
    part = {"functionCall": {"name": "getTime", "args": {}}}
    thought = gemini.parse(chunk([{**part, "thought": True}, {"text": "x"}], "STOP"))
    assert (thought.calls, problems(thought)) == ([], [("skipped", "error")])
    assert thought.message == [{"role": "model", "parts": [{"text": "x"}]}]
    user = gemini.parse({"role": "user", "parts": [part]})
    assert (user.calls, problems(user)) == ([], [("skipped", "error")])
    history: list[dict[str, Any]] = [
        {"role": "user", "parts": [{"text": "Hi"}]},
        {"role": "model", "parts": [part, {"text": "Hello"}]},
        {"role": "user", "parts": [{"text": "And?"}]},
        {"parts": [{"text": " you"}]},
    ]
    read = gemini.parse(history)
    assert ([call.tool_name for call in read.calls], read.text) == (["getTime"], "Hello you")
    assert read.message == [*history[:-1], {**history[-1], "role": "model"}]


def test_only_the_first_candidate_is_read(gemini: GeminiProtocol) -> None:
    """Of several candidates one is read, and that is said once; they may come in any order."""
    one, two = chunk([{"text": "one"}], "STOP"), chunk([{"text": "two"}], "STOP")
    two["candidates"][0]["index"] = 1
    both = {"candidates": [*two["candidates"], *one["candidates"]]}
    for reply in (both, [two, one], [both, two]):
        read = gemini.parse(reply)
        assert read.text == "one"
        assert problems(read) == [("skipped", "warning")]
    unnumbered = {"candidates": [{"content": {"parts": [{"text": t}]}} for t in ("one", "two")]}
    assert gemini.parse(unnumbered).text == "one"


@pytest.mark.parametrize(
    ("arguments", "read", "error"),
    [
        (None, {}, None),
        ({"a": None}, {"a": None}, None),
        ({"n": 1.0, "big": 2**70}, {"n": 1.0, "big": 2**70}, None),
        ('{"a": 1}', {"a": 1}, None),
        ([], {}, None),
        ([1], {}, "must be a JSON object"),
        (3, {}, "must be a JSON object"),
        ({"a": float("nan")}, {}, "no valid JSON"),
    ],
)
def test_arguments(
    gemini: GeminiProtocol, arguments: Any, read: dict[str, Any], error: str | None
) -> None:
    """Arguments are read as they are; what is no object is refused, and still has an answer."""
    reply = gemini.parse(chunk([{"functionCall": {"name": "getTime", "args": arguments}}], "STOP"))
    (call,) = reply.calls
    assert call.arguments == read
    assert call.is_runnable is (error is None)
    assert (error or "") in (call.error or "")
    sent = reply.message[0]["parts"][0]["functionCall"]
    assert sent == {"name": "getTime", "args": read}
    types.Content.model_validate(reply.message[0])


def test_an_object_that_cannot_be_read(gemini: GeminiProtocol) -> None:
    """An SDK's object that refuses to be dumped is a finding."""

    class Broken:
        def model_dump(self, **_: Any) -> Any:
            raise ValueError("not now")

    reply = gemini.parse(Broken())
    assert problems(reply) == [("malformed_reply", "error")]
    assert "not now" in reply.findings[0].message


def test_keys_that_stand_twice(gemini: GeminiProtocol) -> None:
    """Promise 1: of two values under one key, none is guessed."""
    text = json.dumps(chunk([{"functionCall": {"name": "getTime", "args": {"a": 1}}}], "STOP"))
    (call,) = gemini.parse(text.replace('"a": 1', '"a": 1, "a": 2')).calls
    assert not call.is_runnable
    assert "twice" in (call.error or "")


def test_ids(gemini: GeminiProtocol) -> None:
    """Missing ids are made, the same call sent twice is run once, two under one id are two."""
    one, other = ({"id": "x", "name": "getTime", "args": {"offset_ms": n}} for n in (1, 2))
    parts = [{"functionCall": each} for each in (one, one, other, {**one, "id": None})]
    reply = gemini.parse(chunk(parts, "STOP"))
    assert [call.call_id for call in reply.calls] == ["x", "x_3", "call_4"]
    assert problems(reply) == [("repeated_id", "warning")] * 2
    sent = [part["functionCall"].get("id") for part in reply.message[0]["parts"]]
    assert sent == ["x", "x_3", None]
    results = gemini.format_results([result(n) for n in range(3)], reply.calls)
    assert [part["functionResponse"].get("id") for part in results[0]["parts"]] == sent
    twins = gemini.parse(chunk([{"functionCall": {**one, "id": None}}] * 2, "STOP"))
    assert [call.call_id for call in twins.calls] == ["call_1", "call_2"]


def test_names(gemini: GeminiProtocol) -> None:
    """Sent names lead back, `default_api.` is taken away, and a call without a name is not run."""
    odd = replace(TOOL, name="获取 时间")
    ((entry),) = gemini.definitions([TOOL, odd])
    sent = entry["functionDeclarations"][1]["name"]
    names = [sent, "default_api.getTime", f"default_api:{sent}", "default_api.other", None, 3]
    parts = [{"functionCall": {"name": name, "args": {}}} for name in names]
    reply = gemini.parse(chunk(parts, "STOP"))
    expected = ["获取 时间", "getTime", "获取 时间", "default_api.other", "", ""]
    assert [call.tool_name for call in reply.calls] == expected
    assert [bool(call.repairs) for call in reply.calls] == [False, True, True, False, False, False]
    assert [call.is_runnable for call in reply.calls] == [True] * 4 + [False] * 2
    results = gemini.format_results([result(1) for _ in names], reply.calls)
    there = [part["functionCall"]["name"] for part in reply.message[0]["parts"]]
    back = [part["functionResponse"]["name"] for part in results[0]["parts"]]
    assert there == back
    assert there[0] == sent
    assert all(gemini.name_rule.accepts(name) for name in there)


IMAGE = {"type": "image", "data": "AAAA", "mimeType": "image/png"}
TEXT = {"type": "text", "text": "a cat"}


@pytest.mark.parametrize(
    ("output", "response"),
    [
        ({"result": "plain"}, {"output": "plain"}),
        ({"result": None}, {"output": None}),
        ({"rows": [1, {"a": "始"}]}, {"output": {"rows": [1, {"a": "始"}]}}),
        ({"content": [TEXT, TEXT]}, {"output": "a cat\na cat"}),
        ({"content": [TEXT]}, {"output": "a cat"}),
        ({"result": float("inf")}, {"output": "Infinity"}),
        ({"result": "\ud800"}, {"output": "\\ud800"}),
        ({}, {"output": {}}),
    ],
)
def test_a_result_is_an_object(
    gemini: GeminiProtocol, output: dict[str, Any], response: dict[str, Any]
) -> None:
    """X9: `response` always is an object, with data as data."""
    call = ToolCall(call_id="x", tool_name="getTime", arguments={})
    (content,) = gemini.format_results([result(output)], [call])
    assert content["role"] == "user"
    assert content["parts"] == [
        {"functionResponse": {"id": "x", "name": "getTime", "response": response}}
    ]
    json.dumps(content, allow_nan=False).encode()


def test_errors_and_images(gemini: GeminiProtocol) -> None:
    """A failure is under `error`; images are inside the answer, or behind it for older models."""
    calls = [ToolCall(call_id=each, tool_name="getTime", arguments={}) for each in "ab"]
    results = [result("too slow", "timeout"), result({"content": [TEXT, IMAGE]})]
    (content,) = gemini.format_results(results, calls)
    failed, shown = (part["functionResponse"] for part in content["parts"])
    assert failed["response"] == {"error": "Error (timeout): too slow"}
    assert shown["response"] == {"output": "a cat"}
    assert shown["parts"] == [{"inlineData": {"mimeType": "image/png", "data": "AAAA"}}]
    types.Content.model_validate(content)
    (content,) = GeminiProtocol(images="after").format_results(results, calls)
    assert [sorted(part) for part in content["parts"]] == [
        ["functionResponse"],
        ["functionResponse"],
        ["inlineData"],
    ]
    (content,) = gemini.format_results([result({"content": [IMAGE]})], calls[:1])
    assert content["parts"][0]["functionResponse"]["response"] == {"output": "1 image(s), attached"}


def test_results_are_in_the_order_of_their_calls(gemini: GeminiProtocol) -> None:
    """Calls without ids are answered by place: results that came in another order are sorted."""
    reply = gemini.parse(chunk([{"functionCall": {"name": n}} for n in ("a", "b", "c")], "STOP"))
    results = []
    for call in reversed(reply.calls):
        done = result(call.tool_name, name=call.tool_name)
        done.metadata["request_id"] = call.call_id
        results.append(done)
    (content,) = gemini.format_results(results, reply.calls)
    answers = [part["functionResponse"] for part in content["parts"]]
    assert [(each["name"], each["response"]["output"]) for each in answers] == [
        ("a", "a"),
        ("b", "b"),
        ("c", "c"),
    ]
    assert gemini.format_results([]) == []


@pytest.mark.parametrize("sent", ["call_17", "call_1", "call_2_2", "x", None, ""])
def test_ids_of_a_server_that_look_like_ours(gemini: GeminiProtocol, sent: Any) -> None:
    """A result has the id that its call had on the wire, and none where it had none."""
    call = {"name": "getTime", "args": {}} | ({} if sent is None else {"id": sent})
    reply = gemini.parse(chunk([{"functionCall": call}, {"functionCall": {"name": "x"}}], "STOP"))
    results = [result(1), result(2)]
    (content,) = gemini.format_results(results, reply.calls)
    asked = [each["functionCall"].get("id") for each in reply.message[0]["parts"]]
    told = [each["functionResponse"].get("id") for each in content["parts"]]
    assert asked == told == [sent or None, None]


def test_options() -> None:
    """A wrong option is an error that names the right ones."""
    wrong: Any
    for wrong in ({"schema": "yaml"}, {"images": "no"}):
        with pytest.raises(ConfigurationError, match="must be one of"):
            GeminiProtocol(**wrong)
    assert repr(GeminiProtocol(tools=[TOOL])).startswith("GeminiProtocol(KnownTools(1 told of")
    bare = replace(TOOL, parameters=[])
    (entry,) = GeminiProtocol(schema="openapi").definitions([bare])
    assert "parameters" not in entry["functionDeclarations"][0]
    assert GeminiProtocol().definitions([]) == []
    assert GeminiProtocol().prompt([TOOL]) == ""
