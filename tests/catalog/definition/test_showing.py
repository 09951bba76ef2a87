"""May all that is shown of a definition be read by those who operate?"""

from __future__ import annotations

from typing import Any

from tool_engine.catalog.definition.showing import show_case, show_definition, write_shown
from tool_engine.catalog.kinds import ServerDefinition
from tool_engine.catalog.loader import ToolConfigLoader
from tool_engine.catalog.strict_yaml import load_all
from tool_engine.model.group import ToolGroup


def make_tool(**more: Any) -> Any:
    definition = {
        "name": "open_door",
        "description": "Open a door.",
        "parameters": [
            {"name": "door", "type": "string", "required": True, "description": "Which."},
            {
                "name": "word",
                "type": "string",
                "default": "xyzzy",
                "secret": True,
                "description": "The word.",
            },
        ],
        "entry": {"type": "builtin", "handler": "echo"},
        **more,
    }
    return ToolConfigLoader().from_mapping(definition)


def test_secrets_of_its_own() -> None:
    """A default, and what a case sends and gets, are hidden where the schema says secret."""
    case = {"params": {"door": "front", "word": "plugh"}, "expect": {"said": "plugh it is"}}
    tool = make_tool(
        examples=[{"params": {"door": "back", "word": "plover"}}],
        tests=[case],
    )
    text = write_shown(tool)
    for secret in ("xyzzy", "plugh", "plover"):
        assert secret not in text
    assert "front" in text
    assert show_case(tool, case)["params"] == {"door": "front", "word": "[hidden]"}
    shown = show_definition(tool)
    assert shown["parameters"][1]["default"] == "[hidden]"
    assert shown["parameters"][0] == {
        "name": "door",
        "type": "string",
        "required": True,
        "description": "Which.",
    }


def test_short_secrets() -> None:
    """A default of two letters is hidden in its place, though not looked for elsewhere."""
    parameter = {
        "name": "pin",
        "type": "string",
        "default": "42",
        "secret": True,
        "description": "It.",
    }
    assert "42" not in write_shown(make_tool(parameters=[parameter]))
    schema = {
        "type": "object",
        "properties": {
            "door": {
                "type": "object",
                "properties": {"pin": {"type": "string", "writeOnly": True, "default": "42"}},
            }
        },
    }
    assert "42" not in write_shown(make_tool(parameters=schema))


def test_what_looks_like_a_secret() -> None:
    """Headers and addresses keep none; the place of a secret is none."""
    entry = {
        "type": "builtin",
        "handler": "echo",
        "config": {"password": "hunter2", "url": "https://me:hunter3@example.org/"},
    }
    text = write_shown(make_tool(entry=entry))
    assert "hunter" not in text
    assert "example.org" in text


def test_others_than_tools() -> None:
    """Groups and servers are shown as well; what is written is YAML again."""
    group = ToolGroup(name="web", description="The web.", tools=("a",))
    server = ServerDefinition(name="s", content={"command": "x", "env": {"API_KEY": "hunter2"}})
    assert load_all(write_shown(group), "<shown>")[0]["tools"] == ["a"]
    assert "hunter2" not in write_shown(server)
