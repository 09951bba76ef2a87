"""Which tools does a text define, read by other means than the engine's?

PyYAML's own parser in Python composes, the scalars are told apart by other rules, and the fields of
the tool are put together by hand. Nothing here is shared with `tool_engine.catalog`.
"""

from __future__ import annotations

import math
import re
from typing import Any, Final

import msgspec
import yaml

from tool_engine import Tool
from tool_engine.model.group import ToolGroup

__all__ = ["UnreadableError", "differences", "is_same", "read_values"]

_CORE: Final = "tag:yaml.org,2002:"
_WORDS: Final = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_DECIMAL: Final = re.compile(r"([-+]?)([0-9]*)(\.[0-9]*)?([eE][-+]?[0-9]+)?\Z", re.ASCII)
_QUESTION_MARK: Final = "\ue000"
_PERIODS: Final = {"s": 1, "min": 60, "h": 3600, "d": 86400}
_KEYWORDS: Final = {
    "min": "minimum",
    "max": "maximum",
    "min_length": "minLength",
    "max_length": "maxLength",
    "min_items": "minItems",
    "max_items": "maxItems",
    "pattern": "pattern",
    "enum": "enum",
}


class UnreadableError(Exception):
    """The text has no one meaning."""


class _Composer(yaml.BaseLoader):
    def resolve(self, kind: Any, value: Any, implicit: Any) -> str:
        """The tag of a node that has none: whether it was written without quotes."""
        return "plain" if kind is yaml.ScalarNode and implicit[0] else "other"


def read_values(text: str | bytes) -> list[Any]:
    """What each document of `text` holds.

    Raises:
        UnreadableError: It is not YAML, or YAML with anchors, aliases, merges or double keys.
    """
    decoded = text.decode("utf-8-sig") if isinstance(text, bytes) else text.removeprefix("\ufeff")
    try:
        decoded = _as_version_1_1(decoded)
        for token in yaml.scan(decoded, Loader=yaml.BaseLoader):
            if isinstance(token, yaml.AnchorToken | yaml.AliasToken):
                raise UnreadableError("an anchor or an alias")
            if isinstance(token, yaml.TagToken) and token.value == (None, "!"):
                raise UnreadableError("a tag without a name")
        return [_value(node) for node in yaml.compose_all(decoded, Loader=_Composer)]
    except yaml.YAMLError as error:
        raise UnreadableError(str(error)) from error


def _as_version_1_1(text: str) -> str:
    """What this parser does not take although YAML 1.2 does, in a form that it takes.

    A tab between two tokens is a blank; a question mark in an unquoted text is part of it.
    """
    while True:
        try:
            for _ in yaml.parse(text, Loader=yaml.BaseLoader):
                pass
        except yaml.MarkedYAMLError as error:
            at = error.problem_mark.index if error.problem_mark else 0
            taken = {"\t": " ", "?": _QUESTION_MARK}.get(text[at : at + 1])
            if taken is None or (taken == _QUESTION_MARK and "got '?'" not in str(error.problem)):
                raise
            text = text[:at] + taken + text[at + 1 :]
        else:
            return text


def _value(node: Any) -> Any:
    if isinstance(node, yaml.ScalarNode):
        return _scalar(node)
    kind = "seq" if isinstance(node, yaml.SequenceNode) else "map"
    if node.tag not in ("other", _CORE + kind):
        raise UnreadableError(f"the tag {node.tag}")
    if isinstance(node, yaml.SequenceNode):
        return [_value(item) for item in node.value]
    mapping: dict[str, Any] = {}
    for key_node, value_node in node.value:
        key = _value(key_node)
        if not isinstance(key, str) or key in mapping:
            raise UnreadableError(f"the key {key!r}")
        if key_node.tag == "plain" and key == "<<":
            raise UnreadableError("a merge key")
        mapping[key] = _value(value_node)
    return mapping


def _scalar(node: yaml.ScalarNode) -> Any:
    text = str(node.value).replace(_QUESTION_MARK, "?")
    if node.tag in ("other", _CORE + "str"):
        return text
    value = _plain(text)
    kinds: dict[str, Any] = {"int": int, "float": (int, float), "bool": bool, "null": type(None)}
    expected = kinds.get(node.tag.removeprefix(_CORE))
    if node.tag == "plain":
        return value
    if expected is None or not isinstance(value, expected):
        raise UnreadableError(f"the tag {node.tag}")
    return value


def _plain(text: str) -> Any:
    if text in _WORDS:
        return _WORDS[text]
    for sign, base, digits in (("0x", 16, "0-9a-fA-F"), ("0o", 8, "0-7")):
        if re.fullmatch(f"{sign}[{digits}]+", text):
            return _whole(int(text[2:], base))
    if re.fullmatch(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)", text):
        raise UnreadableError(text)
    found = _DECIMAL.match(text)
    if found is None:
        return text
    _, whole, fraction, exponent = found.groups()
    has_no_digits = not whole and len(fraction or "") < 2
    if has_no_digits or (len(whole) > 1 and whole.startswith("0")):
        return text
    if fraction is None and exponent is None:
        return _whole(int(text))
    number = float(text)
    if math.isinf(number) or (number == 0 and re.search("[1-9]", whole + (fraction or ""))):
        raise UnreadableError(text)
    return number


def _whole(number: int) -> int:
    if number.bit_length() > 63 and number != -(2**63):
        raise UnreadableError(str(number)[:40])
    return number


def is_same(one: Any, other: Any) -> bool:
    """Whether two values are equal, kinds of numbers included."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(is_same(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(is_same, one, other))
    return bool(one == other)


def differences(tool: Tool | ToolGroup, definition: Any) -> list[str]:
    """The fields in which `tool`, or a group, is not what `definition` says."""
    if not isinstance(definition, dict):
        return [f"the text holds no mapping but {definition!r}"]
    if (definition.get("kind") == "group") is not isinstance(tool, ToolGroup):
        return [f"kind: {definition.get('kind')!r} was read as {type(tool).__name__}"]
    expected = _fields(definition) if isinstance(tool, Tool) else _group_fields(definition)
    found = {name: _plain_field(tool, name) for name in expected}
    return [
        f"{name}: {found[name]!r} is not {value!r}"
        for name, value in expected.items()
        if not is_same(found[name], value)
    ]


def _fields(written: dict[str, Any]) -> dict[str, Any]:
    retry = written.get("retry")
    return {
        "id": written["name"],
        "name": written["name"],
        "description": written["description"],
        "version": written.get("version", "1.0.0"),
        "category": written.get("category", "custom"),
        "tags": written.get("tags", []),
        "status": written.get("status", "published"),
        "author": written.get("author"),
        "icon": written.get("icon"),
        "shareable_scope": written.get("shareable_scope", "private"),
        "timeout": float(written["timeout"]) if "timeout" in written else None,
        "effect": written.get("effect", "unknown"),
        "idempotent": written.get("idempotent", False),
        "implementation_config": written.get("entry", {"type": "custom"}),
        "parameters": [_parameter(each) for each in written.get("parameters", [])],
        "retry": retry and [int(retry["attempts"]), float(retry.get("backoff", 0.1))],
        "rate": _rate(written["rate"]) if "rate" in written else None,
        "bucket": written.get("concurrency", {}).get("bucket"),
        "output": _output(written),
        "examples": written.get("examples", []),
        "tests": written.get("tests", []),
        "permission": _permission(written.get("permission")),
        "accepts": written.get("accepts"),
        "max_uses": int(written["max_uses"]) if "max_uses" in written else None,
    }


def _group_fields(written: dict[str, Any]) -> dict[str, Any]:
    skills = written.get("skills", [])
    if isinstance(skills, dict):
        skills = [{"name": name, **skill} for name, skill in skills.items()]
    return {
        "name": written["name"],
        "version": written.get("version", "1.0.0"),
        "description": written.get("description", ""),
        "is_enabled": written.get("enabled", False),
        **{name: written.get(name, []) for name in ("tools", "tags", "categories")},
        "disabled_tools": written.get("off", []),
        "rules": written.get("rules", ""),
        "skills": [
            {
                "name": skill["name"],
                "desc": skill["desc"],
                "prompt": skill["prompt"],
                "when": skill.get("when", ""),
                "always_load": skill.get("always_load", skill.get("alwaysLoad", False)),
            }
            for skill in skills
        ],
        "permission": _permission(written.get("permission")),
    }


def _permission(written: Any) -> Any:
    if isinstance(written, str):
        old = {"public": "auto", "moderate": "ask_once", "sensitive": "ask_always"}
        written = {"execution": old.get(written, written)}
    return written and {
        **{
            name: word.replace("-", "_") if (word := written.get(name)) else None
            for name in ("execution", "result")
        },
        "client_may_answer": written.get("client_may_answer", False),
    }


def _parameter(written: dict[str, Any]) -> dict[str, Any]:
    rules = {key: written[key] for key in (*_KEYWORDS, "items", "properties") if key in written}
    return {
        "name": written["name"],
        "type": written["type"],
        "required": written.get("required", False),
        "has_default": "default" in written,
        "default": written.get("default"),
        "description": written["description"],
        "validation": {**rules, **written.get("validation", {})},
        "schema": written.get("schema"),
        "secret": written.get("secret", False),
    }


def _rate(text: str) -> list[float]:
    count, _, period = text.partition("/")
    unit = re.sub(r"^[0-9.]*", "", period)
    number = period.removesuffix(unit)
    return [float(count), float(number or 1) * _PERIODS[unit]]


def _output(written: dict[str, Any]) -> Any:
    for key in ("output", "returns"):
        if key in written:
            return _schema(written[key])
    return None


def _schema(spec: Any) -> dict[str, Any]:
    if isinstance(spec, str):
        return {} if spec == "any" else {"type": spec}
    rules = {**spec, **spec.get("validation", {})}
    schema: dict[str, Any] = {} if spec.get("type", "any") == "any" else {"type": spec["type"]}
    schema |= {key: spec[key] for key in ("description", "default") if key in spec}
    schema |= {keyword: rules[key] for key, keyword in _KEYWORDS.items() if key in rules}
    if "items" in rules:
        schema["items"] = _schema(rules["items"])
    properties = rules.get("properties") or {}
    if properties:
        schema["properties"] = {name: _schema(each) for name, each in properties.items()}
    required = rules["required"] if isinstance(rules.get("required"), list) else []
    required = [*required, *(n for n in properties if _is_required(properties[n], n, required))]
    if required:
        schema["required"] = required
    return {**schema, **(spec.get("schema") or {})}


def _is_required(spec: Any, name: str, listed: list[str]) -> bool:
    return isinstance(spec, dict) and spec.get("required") is True and name not in listed


def _plain_field(tool: Tool | ToolGroup, name: str) -> Any:
    if isinstance(tool, ToolGroup) or name == "permission":
        return msgspec.json.decode(msgspec.json.encode(getattr(tool, name)))
    if name == "parameters":
        fields = _parameter({"name": "", "type": "", "description": ""})
        return [{field: getattr(each, field) for field in fields} for each in tool.parameters]
    if name == "category":
        return tool.category.value
    if name == "retry":
        return tool.retry and [tool.retry.attempts, tool.retry.backoff]
    if name == "rate":
        return tool.rate and [float(tool.rate.calls), tool.rate.period]
    return tool.concurrency.bucket if name == "bucket" else getattr(tool, name)
