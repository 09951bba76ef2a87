"""How does a text with `{param}`, `${env:NAME}` and `${file:/path}` become what is sent?

A text is read once, into parts; rendering joins the parts and never reads its own result again,
so a value that looks like a placeholder stays a value. `{name}` is a parameter, `${env:NAME}` and
`${file:/path}` are secrets, `{{name}}` the literal text `{name}`; every other brace stands for
itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from tool_engine.errors import ToolExecutionError
from tool_engine.executors.secrets import SecretPart, SecretScope

_TOKEN: Final = re.compile(
    r"\{\{(?P<literal>[A-Za-z_][\w-]*)\}\}"
    r"|\$\{(?P<source>[^}]*)\}"
    r"|\{(?P<parameter>[A-Za-z_][\w-]*)\}"
)
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_MAX_DEPTH: Final = 32
_NAME: Final = r"([A-Za-z_][\w-]*)"
_FOREIGN: Final = re.compile(
    rf"\{{\{{-?\s*{_NAME}\s*-?\}}\}}|\$\{{\s*{_NAME}\s*\}}|\$\({_NAME}\)|%\({_NAME}\)s"
    rf"|<{_NAME}>|%{_NAME}%|[$@]{_NAME}|\{{\s*{_NAME}\s*\}}"
)
_LOOKED_AT: Final = 4096
"""Characters of an entry in which other placeholders are looked for."""


class _Missing:
    """The rendering of a template whose optional parameter the call left out."""

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = _Missing()


class TemplateError(ValueError):
    """A text of a definition is not a template; the message says what to write instead."""


class ParameterPart(msgspec.Struct, frozen=True):
    name: str


Part = str | ParameterPart | SecretPart


class TextTemplate(msgspec.Struct, frozen=True):
    parts: tuple[Part, ...]

    @classmethod
    def parse(cls, text: str) -> TextTemplate:
        """Read `text`; raise `TemplateError` for a `${...}` that names no secret."""
        parts: list[Part] = []
        end = 0
        for match in _TOKEN.finditer(text):
            parts.append(text[end : match.start()])
            parts.append(_make_part(match))
            end = match.end()
        parts.append(text[end:])
        return cls(tuple(_join_parts(parts)))

    @property
    def whole(self) -> str | None:
        """The parameter's name, where the text is one placeholder and nothing else."""
        if len(self.parts) == 1 and isinstance(self.parts[0], ParameterPart):
            return self.parts[0].name
        return None

    @property
    def parameters(self) -> set[str]:
        return {part.name for part in self.parts if isinstance(part, ParameterPart)}

    @property
    def has_secret(self) -> bool:
        return any(isinstance(part, SecretPart) for part in self.parts)

    @property
    def secrets(self) -> list[SecretPart]:
        return [part for part in self.parts if isinstance(part, SecretPart)]

    def render(
        self,
        params: Mapping[str, Any],
        secrets: SecretScope,
        encode: Callable[[str], str] = str,
    ) -> str | None:
        """Return the text with encoded values; None if one is left out."""
        texts: list[str] = []
        for part in self.parts:
            if isinstance(part, str):
                texts.append(part)
            elif isinstance(part, SecretPart):
                texts.append(encode(secrets.resolve(part)))
            elif (value := params.get(part.name)) is None:
                return None
            else:
                texts.append(encode(value_text(part.name, value)))
        return "".join(texts)


class JSONTemplate(msgspec.Struct, frozen=True):
    tree: Any

    @classmethod
    def parse(cls, value: Any) -> JSONTemplate:
        """Read `value`; raise `TemplateError` for a value that JSON cannot hold."""
        return cls(_parse_json(value, 0))

    @property
    def texts(self) -> list[TextTemplate]:
        return list(_walk_templates(self.tree))

    def render(self, params: Mapping[str, Any], secrets: SecretScope) -> Any:
        """Return the value with `params` filled in.

        A text that is one placeholder takes the parameter's value with its type. An entry whose
        parameter the call left out is left out too; `MISSING` when nothing else is there.
        """
        return _render_json(self.tree, params, secrets)


def find_foreign_forms(value: Any) -> dict[str, str]:
    """Return names -> how another template language writes them in an entry."""
    found: dict[str, str] = {}
    for match in _FOREIGN.finditer(str(value)[:_LOOKED_AT]):
        found.setdefault(match[match.lastindex or 0], match.group())
    return found


def value_text(name: str, value: Any) -> str:
    """Return a parameter as text; raise `ToolExecutionError` for a list or mapping."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    if isinstance(value, int | float):
        return str(value)
    raise ToolExecutionError(
        f"parameter {name!r} must be a text, a number or a boolean to be sent here, "
        f"got {type(value).__name__}"
    )


def _make_part(match: re.Match[str]) -> Part:
    if (literal := match["literal"]) is not None:
        return f"{{{literal}}}"
    if (parameter := match["parameter"]) is not None:
        return ParameterPart(parameter)
    return _make_secret(match.group(), match["source"])


def _make_secret(text: str, source: str) -> SecretPart:
    kind, _, name = source.partition(":")
    if kind == "env" and _VARIABLE.fullmatch(name):
        return SecretPart(name)
    if kind != "file":
        raise TemplateError(
            f"{text!r} is not a placeholder; write ${{env:NAME}} for an environment variable, "
            "${file:/path} for the text in a file, or {name} for a parameter"
        )
    if not Path(name).is_absolute() or not name.isprintable() or name != name.strip():
        raise TemplateError(
            f"{text!r} names no file; write its absolute path, such as ${{file:/run/secrets/key}}"
        )
    return SecretPart(name, "file")


def _join_parts(parts: list[Part]) -> Iterator[Part]:
    pending = ""
    for part in parts:
        if isinstance(part, str):
            pending += part
            continue
        if pending:
            yield pending
        pending = ""
        yield part
    if pending:
        yield pending


def _parse_json(value: Any, depth: int) -> Any:
    if depth > _MAX_DEPTH:
        raise TemplateError(f"is nested deeper than {_MAX_DEPTH} levels")
    if isinstance(value, str):
        template = TextTemplate.parse(value)
        if all(isinstance(part, str) for part in template.parts):
            return "".join(str(part) for part in template.parts)
        return template
    if isinstance(value, list):
        return [_parse_json(item, depth + 1) for item in value]
    if isinstance(value, dict):
        return {_json_key(key): _parse_json(item, depth + 1) for key, item in value.items()}
    if value is None or isinstance(value, bool | int | float):
        return value
    raise TemplateError(f"holds a {type(value).__name__}, which JSON cannot hold; write a text")


def _json_key(key: Any) -> str:
    if not isinstance(key, str):
        raise TemplateError(f"has the key {key!r}; keys are texts: write {str(key)!r} in quotes")
    if any(not isinstance(part, str) for part in TextTemplate.parse(key).parts):
        raise TemplateError(f"has a placeholder in the key {key!r}; only values are filled in")
    return key


def _walk_templates(tree: Any) -> Iterator[TextTemplate]:
    if isinstance(tree, TextTemplate):
        yield tree
    elif isinstance(tree, dict):
        for item in tree.values():
            yield from _walk_templates(item)
    elif isinstance(tree, list):
        for item in tree:
            yield from _walk_templates(item)


def _render_json(tree: Any, params: Mapping[str, Any], secrets: SecretScope) -> Any:
    if isinstance(tree, TextTemplate):
        if (whole := tree.whole) is not None:
            return params.get(whole, MISSING)
        text = tree.render(params, secrets)
        return MISSING if text is None else text
    if isinstance(tree, dict):
        rendered = {key: _render_json(item, params, secrets) for key, item in tree.items()}
        return {key: item for key, item in rendered.items() if item is not MISSING}
    if isinstance(tree, list):
        items = [_render_json(item, params, secrets) for item in tree]
        return [item for item in items if item is not MISSING]
    return tree
