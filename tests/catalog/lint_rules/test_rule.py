"""Does each lint rule find what it is for, and leave alone what is right?"""

from __future__ import annotations

from typing import Any

import pytest

from tool_engine.catalog.lint import LINT_RULES, lint_tool
from tool_engine.catalog.lint_rules.rule import ERROR, WARNING
from tool_engine.catalog.loader import ToolConfigLoader
from tool_engine.model.tool import Tool

TEXT: dict[str, Any] = {
    "name": "text",
    "type": "string",
    "required": True,
    "description": 'The text to keep, such as "hello"',
    "validation": {"max_length": 100},
}
GOOD: dict[str, Any] = {
    "name": "keep_note",
    "description": "Keeps a note for the user. Use it when asked to remember. It does not send it.",
    "effect": "write",
    "parameters": [TEXT],
    "entry": {"type": "builtin", "handler": "echo"},
    "examples": [{"params": {"text": "hello"}, "output": {"text": "hello"}}],
    "tests": [{"params": {"text": "a"}, "expect": {"text": "a"}}],
}


def good(**changes: Any) -> dict[str, Any]:
    """The good definition with other values; None takes a key out."""
    return {key: value for key, value in {**GOOD, **changes}.items() if value is not None}


def text(**changes: Any) -> list[dict[str, Any]]:
    """Its one parameter with other values."""
    return [{key: value for key, value in {**TEXT, **changes}.items() if value is not None}]


def request(method: str, **headers: str) -> dict[str, Any]:
    return {
        "type": "http",
        "request": {"method": method, "url": "https://example.com/", "headers": headers},
    }


def described(words: str) -> dict[str, Any]:
    return good(description=words)


def parametrized(**changes: Any) -> dict[str, Any]:
    return good(parameters=text(**changes))


def many(count: int) -> dict[str, Any]:
    parameters = [{**TEXT, "name": f"p{n}", "description": f"The number {n}"} for n in range(count)]
    return good(parameters=parameters, examples=None, tests=None)


def bare(**changes: Any) -> dict[str, Any]:
    return good(parameters=text(required=None, **changes), examples=None, tests=None)


def properties(**specs: Any) -> dict[str, Any]:
    return bare(type="object", validation={"properties": specs})


SENTENCE = "Looks at the text. Use it when asked. It does not change it."
FOUND: list[tuple[str, dict[str, Any], str]] = [
    ("L101", described("Remembers a note."), "fewer than 4 words"),
    ("L101", described("Keep note"), "only repeats the name"),
    ("L101", described("保存笔记"), "fewer than 4 words"),
    ("L102", described("Keeps a short note of the user, and nothing else."), "when to use"),
    ("L102", described("发送请求并返回响应，不超时重试"), "when to use"),
    ("L103", described("Keeps a short note. Use it when the user asks for it."), "is not for"),
    ("L103", described("保存用户的笔记。当用户要求记住时使用。"), "is not for"),
    ("L104", described(f"{SENTENCE} {'x' * 1024}"), "has 1085 characters; keep it to 1024"),
    ("L105", good(name="notes.keep"), "OpenAI and Anthropic refuses the name 'notes.keep'"),
    ("L105", good(name="n" * 65), "Gemini refuses the name"),
    ("L106", good(name="keepNote"), "write 'keep_note'"),
    ("L106", good(name="keep-note"), "write 'keep_note'"),
    ("L107", good(status="deprecated"), '"Use ... instead"'),
    ("L201", parametrized(description="The text"), "only repeats the name 'text'"),
    ("L201", parametrized(description="Words"), "fewer than 2 words"),
    ("L201", parametrized(description="年龄"), "fewer than 2 words"),
    (
        "L202",
        good(parameters=[TEXT, {**TEXT, "name": "other", "required": False}]),
        "the same as that of 'text'",
    ),
    ("L203", properties(day="string"), "the property 'day' has no description"),
    (
        "L203",
        properties(
            days={
                "type": "array",
                "description": "Days",
                "items": {
                    "type": "object",
                    "validation": {"properties": {"hour": {"type": "integer"}}},
                },
            }
        ),
        "the property 'hour' has no description",
    ),
    ("L204", bare(type="integer", validation={"enum": [1, 2]}), "say in the description what 1"),
    ("L205", parametrized(default="a"), "never uses its default"),
    ("L206", many(13), "has 13 parameters"),
    ("L207", bare(name="城市"), "Anthropic refuses the parameter name '城市'"),
    ("L208", parametrized(validation=None), "add max_length"),
    ("L208", bare(type="array", validation=None), "add max_items"),
    ("L301", good(effect=None, entry=request("POST")), "the request is a POST"),
    ("L301", good(effect=None, category="notification", name="tell"), "category is notification"),
    ("L301", good(effect=None, name="delete_note"), "its name is that of a tool that writes"),
    ("L301", good(effect=None, description="Sends a note. Use it, not often."), "its description"),
    (
        "L301",
        good(effect=None, description="发送一条笔记。需要时使用，不可撤销。"),
        "its description",
    ),
    (
        "L301",
        good(effect=None, parameters=text(name="method", validation={"enum": ["GET", "PUT"]})),
        "the model may choose PUT",
    ),
    ("L302", good(effect="read", entry=request("DELETE")), "effect is read"),
    ("L303", parametrized(name="api_key"), "add secret: true"),
    ("L304", bare(name="api_key", default="abc"), "remove the secret"),
    ("L304", bare(secret=True, default="abc"), "remove the secret"),
    ("L304", bare(default=f"sk-{'a' * 20}"), "remove the secret"),
    (
        "L304",
        bare(type="object", validation=None, default={"a": [f"ghp_{'a' * 24}"]}),
        "remove the secret",
    ),
    ("L305", good(entry=request("GET", Authorization="abc")), "write ${env:NAME} here"),
    ("L305", good(entry=request("GET", Accept=f"Bearer {'a' * 20}")), "write ${env:NAME} here"),
    ("L401", good(examples=None), "has no examples"),
    ("L402", good(examples=None, tests=None), "has no tests"),
    ("L402", good(examples=[{"params": {"text": "a"}}], tests=None), "has no tests"),
    (
        "L403",
        good(examples=[{"params": {"text": 3}}]),
        "must be a string, got the integer 3: send it in quotes",
    ),
    ("L403", good(tests=[{"params": {}, "expect": 1}]), "missing required parameter 'text'"),
]
QUIET: list[tuple[str, dict[str, Any]]] = [
    ("L101", described("发送 HTTP 请求并返回响应")),
    ("L102", described("查询天气时调用，返回温度，不含预报")),
    ("L102", described("用于查询城市的天气，不含预报")),
    ("L103", described("仅查询当前的天气，需要时使用")),
    ("L103", described("Keeps a note when asked. It can't send one.")),
    ("L104", described(f"{SENTENCE} {'x' * 900}")),
    ("L105", good(name="n" * 64)),
    ("L106", good(name="keep_note_2")),
    ("L107", good(status="deprecated", description=f"{SENTENCE} Call keep_all instead.")),
    ("L107", good(status="deprecated", description=f"{SENTENCE} Use keep_all.")),
    ("L107", good(status="deprecated", description=f"{SENTENCE} 请改用 keep_all。")),
    ("L201", parametrized(description="请求头")),
    ("L201", parametrized(description="请求 URL", name="url")),
    ("L203", properties(day={"type": "string", "description": "The day"})),
    (
        "L204",
        bare(type="integer", validation={"enum": [1, 2]}, description="1: by post, 2: by mail"),
    ),
    ("L204", bare(validation={"enum": ["GET", "PUT"]})),
    ("L205", parametrized(default="a", required=False)),
    ("L206", many(12)),
    ("L207", bare(name="city-name_2")),
    ("L208", good(effect="read", parameters=text(validation=None))),
    ("L208", parametrized(validation={"enum": ["a"]})),
    ("L208", parametrized(validation=None, schema={"maxLength": 3})),
    ("L208", bare(type="array", validation={"max_items": 3})),
    ("L208", bare(type="boolean", validation=None)),
    ("L301", good(effect=None, name="delete_note", entry=request("GET"))),
    ("L301", good(effect=None)),
    ("L301", good(effect="read", entry=request("POST"))),
    ("L301", good(effect=None, parameters=text(name="method", validation={"enum": ["GET"]}))),
    ("L302", good(effect="read", entry=request("GET"))),
    ("L303", parametrized(name="api_key", secret=True)),
    ("L303", parametrized(name="page_token")),
    ("L303", bare(name="api_key", type="boolean", validation=None)),
    ("L304", bare(name="page_token", default="start")),
    ("L304", bare(name="token", type="boolean", validation=None, default=True)),
    ("L304", bare(name="api_key", default="")),
    ("L305", good(entry=request("GET", Authorization="Bearer ${env:TOKEN}", Accept="a/b"))),
    (
        "L305",
        good(entry={"type": "http", "request": {"url": "https://${env:A}:${env:B}@example.com/"}}),
    ),
    ("L402", good(tests=None)),
    ("L403", good(tests=[{"params": {"text": 3}, "expect_error": "validation_error"}])),
]


def load(definition: dict[str, Any]) -> Tool:
    return ToolConfigLoader().from_mapping(definition)


def codes_of(definition: dict[str, Any]) -> set[str]:
    return {finding.code for finding in lint_tool(load(definition))}


def test_a_good_definition_is_clean() -> None:
    """R5: a file that does everything right has no findings."""
    assert lint_tool(load(GOOD)) == []


@pytest.mark.parametrize(("code", "definition", "words"), FOUND)
def test_each_rule_finds_its_flaw(code: str, definition: dict[str, Any], words: str) -> None:
    """R5: the flaw is found, and the message says what is wrong and what to do."""
    found = [finding for finding in lint_tool(load(definition)) if finding.code == code]
    assert any(words in finding.message for finding in found), found


@pytest.mark.parametrize(("code", "definition"), QUIET)
def test_no_rule_raises_a_false_alarm(code: str, definition: dict[str, Any]) -> None:
    """R5: what is right, in English and in Chinese, is left alone by the rule."""
    assert code not in codes_of(definition)


def test_every_rule_is_tried_both_ways() -> None:
    """A new rule comes with what it finds; each is a value with code, severity and reason."""
    codes = [rule.code for rule in LINT_RULES]
    assert codes == sorted(set(codes))
    assert set(codes) - {"L001"} == {code for code, *_ in FOUND}
    for rule in LINT_RULES:
        assert rule.severity in (ERROR, WARNING)
        assert rule.reason.endswith(".")
        assert not rule.summary.endswith(".")
