"""How is a parameter put into a URL without changing where the URL leads?

The scheme, host and port of a URL come from the definition alone. A parameter in the path is one
segment, in the query one value; both are percent-encoded whole.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final
from urllib.parse import quote, unquote

import msgspec

from tool_engine.errors import ToolExecutionError
from tool_engine.executors.secrets import SecretPart, SecretScope
from tool_engine.executors.templates import (
    ParameterPart,
    Part,
    TemplateError,
    TextTemplate,
    value_text,
)
from tool_engine.redaction import describe_value

# What a definition may write literally in a path or query (RFC 3986, 3.3 and 3.4).
_LITERAL: Final = "/?:@!$&'()*+,;=-._~%"
_DOT: Final = re.compile(r"\.|%2e", re.IGNORECASE)
_ORIGIN: Final = re.compile(r"https?://[^/?#]*", re.IGNORECASE)


class URLTemplate(msgspec.Struct, frozen=True):
    origin: tuple[str | SecretPart, ...]
    """Up to the end of the host and port; has no parameter."""
    path: TextTemplate
    """Percent-encoded, except its placeholders; so is the query."""
    query: TextTemplate | None

    @classmethod
    def parse(cls, text: Any) -> URLTemplate:
        """Read a URL; raise `TemplateError` if a parameter could change its host."""
        if not isinstance(text, str):
            raise TemplateError(f"must be a text, got {describe_value(text)}")
        origin, rest = _split_origin(TextTemplate.parse(text).parts)
        _check_origin(origin)
        path, query = _split_at(rest, "?")
        for part in (*path, *(query or ())):
            if isinstance(part, str) and re.search(r"[{}#\s\\]", part):
                raise TemplateError(
                    "has a brace, '#', blank or backslash outside of a {name}; write a parameter "
                    "as {name}, and percent-encode what is none"
                )
        return cls(
            origin=origin,
            path=_quote_parts(path),
            query=None if query is None else _quote_parts(query),
        )

    @property
    def parameters(self) -> set[str]:
        return self.path.parameters | (self.query.parameters if self.query else set())

    @property
    def secrets(self) -> list[SecretPart]:
        parts = (*self.origin, *self.path.parts, *(self.query.parts if self.query else ()))
        return [part for part in parts if isinstance(part, SecretPart)]

    def render(self, params: Mapping[str, Any], secrets: SecretScope) -> tuple[str, str]:
        """Return the fixed start of the URL and, percent-encoded, the rest."""
        origin = self.origin[0]
        if len(self.origin) > 1 or not isinstance(origin, str):
            origin = "".join(
                part if isinstance(part, str) else secrets.resolve_address(part)
                for part in self.origin
            )
        part = self.origin[0]
        if isinstance(part, SecretPart) and not _ORIGIN.match(origin):
            raise ToolExecutionError(
                f"the URL begins with ${{{part.source}:{part.name}}}, whose value does not begin "
                "with http:// or https://; set it to an address with its scheme"
            )
        rest = _render_url(self.path, params, secrets, _encode_segment)
        if isinstance(self.origin[-1], SecretPart) and rest.startswith("/"):
            origin = origin.removesuffix("/")
        if self.query is not None:
            rest += "?" + _render_url(self.query, params, secrets, _encode_value)
        if "#" in origin or (rest and "?" in origin):
            raise ToolExecutionError(
                "the address that the URL begins with must not hold '?' or '#'; put only "
                "scheme, host, port and path into the environment variable"
            )
        return origin, rest


def query_text(name: str, value: Any) -> str:
    items = value if isinstance(value, list) else [value]
    return "&".join(f"{quote(name, safe='')}={quote(value_text(name, i), safe='')}" for i in items)


def _split_origin(
    parts: tuple[Part, ...],
) -> tuple[tuple[str | SecretPart, ...], tuple[Part, ...]]:
    origin: list[str | SecretPart] = []
    for index, part in enumerate(parts):
        if isinstance(part, ParameterPart):
            break
        is_after_scheme = index == 0 or origin == []
        if isinstance(part, SecretPart):
            origin.append(part)
            continue
        match = _ORIGIN.match(part) if is_after_scheme else re.match(r"[^/?#]*", part)
        if match is None:
            _refuse_start(part)
            break
        origin.append(match.group())
        if match.end() < len(part):
            rest = (part[match.end() :], *parts[index + 1 :])
            return tuple(item for item in origin if item != ""), rest
    else:
        if origin:
            return tuple(origin), ()
    raise TemplateError(
        "must begin with http://, https:// or ${env:NAME}, and its host and port must not hold a "
        "{parameter}; put a '/' or '?' before the first one"
    )


def _refuse_start(text: str) -> None:
    start = "must begin with http:// or https://"
    if text.startswith("/"):
        raise TemplateError(f"{start}; write the whole address, its host too")
    raise TemplateError(f"{start}; write https://{text.partition('://')[2][:80] or text[:80]}")


def _check_origin(origin: tuple[str | SecretPart, ...]) -> None:
    literal = "".join(part if isinstance(part, str) else "env" for part in origin)
    if isinstance(origin[0], str) and not re.fullmatch(
        r"https?://[^@\s\\]+", literal, re.IGNORECASE
    ):
        raise TemplateError(
            "must name a host after http:// or https://, without user name, password or blank"
        )


def _split_at(
    parts: tuple[Part, ...], mark: str
) -> tuple[tuple[Part, ...], tuple[Part, ...] | None]:
    for index, part in enumerate(parts):
        if isinstance(part, str) and mark in part:
            before, _, after = part.partition(mark)
            head = (*parts[:index], before) if before else parts[:index]
            return head, ((after, *parts[index + 1 :]) if after else parts[index + 1 :])
    return parts, None


def _quote_parts(parts: tuple[Part, ...]) -> TextTemplate:
    quoted = (quote(part, safe=_LITERAL) if isinstance(part, str) else part for part in parts)
    return TextTemplate(tuple(quoted))


def _render_url(
    template: TextTemplate,
    params: Mapping[str, Any],
    secrets: SecretScope,
    encode: Callable[[str, str], str],
) -> str:
    texts = []
    for part in template.parts:
        if isinstance(part, str):
            texts.append(part)
        elif isinstance(part, SecretPart):
            # A webhook's secret often spans several path segments.
            texts.append(quote(secrets.resolve(part), safe="/"))
        elif (value := params.get(part.name)) is None:
            raise ToolExecutionError(f"the URL needs the parameter {part.name!r}")
        else:
            texts.append(encode(part.name, value_text(part.name, value)))
    text = "".join(texts)
    if encode is _encode_segment and _DOT.search(text) and _climbs_out(text.split("/")):
        raise ToolExecutionError("a parameter would turn a part of the URL's path into '.' or '..'")
    return text


def _encode_segment(name: str, text: str) -> str:
    if not text:
        raise ToolExecutionError(
            f"parameter {name!r} is empty, which would make the URL lead somewhere else"
        )
    if _is_plain(text):
        return text
    # Some servers decode before they split, and some cut off what follows a semicolon.
    if _DOT.search(text) and _climbs_out(re.split(r"[/\\]", unquote(text))):
        raise ToolExecutionError(
            f"parameter {name!r} must not hold '.' or '..' as a part of a path, got {text[:80]!r}"
        )
    return quote(text, safe="")


def _climbs_out(pieces: Iterable[str]) -> bool:
    return any(unquote(piece).partition(";")[0].strip() in (".", "..") for piece in pieces)


def _encode_value(_name: str, text: str) -> str:
    return text if _is_plain(text) else quote(text, safe="")


def _is_plain(text: str) -> bool:
    return text.isascii() and text.isalnum()
