"""Tool lists in the forms that public servers and function lists have them.

As zod, pydantic and hand-written schemas give them: drafts, unions with null, definitions, tuples
of objects, defaults, titles.
"""

from __future__ import annotations

from typing import Any

DRAFT_07 = "http://json-schema.org/draft-07/schema#"
TEXT = {"type": "string"}


def zod(required: list[str], **properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
        "$schema": DRAFT_07,
    }


def model(title: str, required: list[str], **properties: Any) -> dict[str, Any]:
    for name, each in properties.items():
        each.setdefault("title", name.title())
    return {"title": title, "type": "object", "properties": properties, "required": required}


def optional(kind: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [kind, {"type": "null"}], "default": None}


EDIT = {
    "type": "object",
    "properties": {
        "oldText": {"type": "string", "description": "Text to search for - must match exactly"},
        "newText": {"type": "string", "description": "Text to replace with"},
    },
    "required": ["oldText", "newText"],
    "additionalProperties": False,
}
SERVERS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
        ("read_text_file", zod(["path"], path=TEXT, tail={"type": "number"}), {}),
        ("read_all", zod(["paths"], paths={"type": "array", "items": TEXT, "minItems": 1}), {}),
        ("write_file", zod(["path", "content"], path=TEXT, content=TEXT), {
            "annotations": {"readOnlyHint": False, "idempotentHint": True}}),
        ("edit_file", zod(["path", "edits"], path=TEXT, edits={"type": "array", "items": EDIT},
                          dryRun={"type": "boolean", "default": False}), {}),
        ("list_allowed", {"type": "object", "properties": {}, "required": []}, {
            "annotations": {"readOnlyHint": True}}),
        ("no_arguments", {"type": "object"}, {}),
        ("create_entities", zod(["entities"], entities={"type": "array", "items": {
            "type": "object", "properties": {"name": TEXT, "observations": {
                "type": "array", "items": TEXT}}, "required": ["name"]}}), {}),
        ("fetch", model("Fetch", ["url"], url={"type": "string", "format": "uri", "minLength": 1},
                        max_length={"type": "integer", "exclusiveMinimum": 0,
                                    "exclusiveMaximum": 1_000_000, "default": 5000},
                        raw={"type": "boolean", "default": False}), {}),
        ("git_log", model("GitLog", ["repo_path"], repo_path=dict(TEXT),
                          max_count={"type": "integer", "default": 10},
                          start_timestamp=optional({"type": "string"})), {}),
        ("git_diff", {**model("GitDiff", ["target"], target={"$ref": "#/$defs/Target"}),
                      "$defs": {"Target": {"enum": ["HEAD", "index"], "type": "string"}}}, {}),
        ("convert_time", zod(["time"], time={"type": "string", "pattern": r"^\d\d:\d\d$"}), {}),
        ("search_issues", zod(["q"], q=TEXT, order={"type": "string", "enum": ["asc", "desc"]},
                              page={"type": "number", "minimum": 1},
                              labels={"type": ["array", "null"], "items": TEXT}), {}),
        ("query", zod(["sql"], sql=TEXT, params={"type": "array", "items": {}}), {}),
        ("evaluate", zod(["script"], script=TEXT, arguments={"type": "object",
                                                            "additionalProperties": {}}), {}),
        ("think", zod(["thought"], thought=TEXT, nextThoughtNeeded={"type": "boolean"},
                      thoughtNumber={"type": "integer", "minimum": 1}), {
            "outputSchema": {"type": "object", "properties": {"done": {"type": "boolean"}},
                             "required": ["done"]}}),
        ("tree", {**zod(["root"], root={"$ref": "#/definitions/node"}), "definitions": {
            "node": {"type": "object", "properties": {"children": {
                "type": "array", "items": {"$ref": "#/definitions/node"}}}}}}, {}),
        ("click", {"anyOf": [{"required": ["ref"]}, {"required": ["x", "y"]}], "type": "object",
                   "properties": {"ref": TEXT, "x": {"type": "number"}, "y": {"type": "number"}}},
         {}),
        ("notify", {"type": "object", "properties": {"to": {"oneOf": [
            {"type": "string", "format": "email"}, {"type": "array", "items": TEXT}]}}}, {}),
        ("set.value", zod(["key"], key=TEXT, value={}), {}),
]  # fmt: skip
MCP: list[dict[str, Any]] = [
    {
        "name": name,
        "title": name.replace("_", " ").title(),
        "description": f"What {name} does",
        "inputSchema": schema,
        **more,
    }
    for name, schema, more in SERVERS
]
LEFT_OUT: list[dict[str, Any]] = [
    {"name": "upload", "description": "d", "inputSchema": zod(
        ["data"], data={"type": "string", "contentEncoding": "base64", "format": "binary"})},
    {"name": "ids", "description": "d", "inputSchema": zod(
        ["id"], id={"type": "integer", "format": "int64", "x-order": 1})},
    {"name": "slug", "description": "d", "inputSchema": zod(
        ["slug"], slug={"type": "string", "pattern": "^(?!-)[a-z-]+$"})},
    {"name": "old", "description": "d", "inputSchema": {"$id": "old.json", "type": "object",
     "properties": {"n": {"type": "number", "minimum": 0, "exclusiveMinimum": True}}}},
]  # fmt: skip
"""Tools of which something is left out, or written in today's words."""
WEATHER = {
    "type": "object",
    "properties": {
        "location": {"type": "string", "description": "The city and state, such as Boston, MA"},
        "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
    },
    "required": ["location"],
}
OPENAI = [
    {
        "type": "function",
        "function": {"name": "get_weather", "description": "Weather", "parameters": WEATHER},
    },
    {
        "type": "function",
        "function": {
            "name": "get_time",
            "description": "Time",
            "parameters": {"type": "object", "properties": {}},
        },
    },
]
RESPONSES = [
    {
        "type": "function",
        "name": "get_weather",
        "description": "Weather",
        "parameters": WEATHER,
        "strict": False,
    }
]
ANTHROPIC = [{"name": "get_weather", "description": "Weather", "input_schema": WEATHER}]
GEMINI = [
    {
        "functionDeclarations": [
            {"name": "get_weather", "description": "Weather", "parametersJsonSchema": WEATHER}
        ]
    }
]
OPENAPI = [
    {
        "function_declarations": [
            {
                "name": "get_weather",
                "description": "Weather",
                "parameters": {
                    "type": "OBJECT",
                    "properties": {
                        "location": {"type": "STRING"},
                        "days": {"type": "INTEGER", "nullable": True, "format": "int32"},
                    },
                    "required": ["location"],
                },
            }
        ]
    }
]
"""As Gemini has it in words of OpenAPI."""
