"""How does a value with `${...}` in its texts become the value that is passed on?

A value is read once, when its workflow is loaded. Rendering replaces references by values and never
reads its own result: a text from a tool stays a text, whatever it looks like. A text that is one
reference takes the value with its type; inside a longer text the value is put in as text. `$${`
stands for the characters `${`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from tool_engine.executors.workflow.evaluation import (
    LEFT_OUT,
    EvaluationError,
    Scope,
    kind_of,
    value_of,
)
from tool_engine.executors.workflow.expression import (
    ExpressionError,
    Node,
    Path,
    paths_of,
    read_reference,
)

MAX_TEXT: Final = 10_000_000
"""The most characters of a text with references: steps could double it repeatedly."""
_START: Final = re.compile(r"\$?\$\{")

Places = list[tuple[str, str]]
"""Where in a value something is wrong, such as `.items[0]`, and what."""


class Text(msgspec.Struct, frozen=True):
    parts: tuple[str | Node, ...]

    @property
    def whole(self) -> Node | None:
        """The reference, where the text is one and nothing else."""
        part = self.parts[0]
        return None if len(self.parts) > 1 or isinstance(part, str) else part


def parse_template(value: Any, wrong: Places, place: str = "") -> Any:
    """Return `value` with a `Text` for each text with references; `wrong` collects mistakes."""
    if isinstance(value, str):
        try:
            return _parse_text(value)
        except ExpressionError as error:
            wrong.append((place, str(error)))
            return value
    if isinstance(value, dict):
        for key in value:
            if "${" in key:
                wrong.append((place, f"the key {key!r} holds a reference; only values may"))
        return {key: parse_template(each, wrong, f"{place}.{key}") for key, each in value.items()}
    if isinstance(value, list):
        return [
            parse_template(each, wrong, f"{place}[{number}]") for number, each in enumerate(value)
        ]
    return value


def references_in(tree: Any) -> Iterator[Path]:
    if isinstance(tree, Text):
        for part in tree.parts:
            if not isinstance(part, str):
                yield from paths_of(part)
    elif isinstance(tree, dict):
        for each in tree.values():
            yield from references_in(each)
    elif isinstance(tree, list):
        for each in tree:
            yield from references_in(each)


def has_references(tree: Any) -> bool:
    if isinstance(tree, dict):
        return any(map(has_references, tree.values()))
    return any(map(has_references, tree)) if isinstance(tree, list) else isinstance(tree, Text)


def render_tree(tree: Any, scope: Scope) -> Any:
    """Return the value of a template.

    An entry whose reference is a parameter that the call left out is left out too; `LEFT_OUT` when
    nothing else is there.
    """
    if isinstance(tree, Text):
        if (whole := tree.whole) is not None:
            return value_of(whole, scope)
        return _join_texts(
            [part if isinstance(part, str) else _text_of(part, scope) for part in tree.parts]
        )
    if isinstance(tree, dict):
        rendered = {key: render_tree(each, scope) for key, each in tree.items()}
        return {key: value for key, value in rendered.items() if value is not LEFT_OUT}
    if isinstance(tree, list):
        return [value for each in tree if (value := render_tree(each, scope)) is not LEFT_OUT]
    return tree


def _parse_text(text: str) -> Any:
    parts: list[str | Node] = []
    written, end = "", 0
    while (found := _START.search(text, end)) is not None:
        written += text[end : found.start()]
        end = found.end()
        if len(found[0]) > len("${"):
            written += "${"
            continue
        if written:
            parts.append(written)
        written = ""
        node, end = read_reference(text, end)
        parts.append(node)
    written += text[end:]
    if not parts:
        return written
    return Text((*parts, written) if written else tuple(parts))


def _join_texts(texts: list[str]) -> str:
    size = sum(map(len, texts))
    if size > MAX_TEXT:
        raise EvaluationError(
            f"a text with references would have {size} characters; the most is {MAX_TEXT}"
        )
    return "".join(texts)


def _text_of(node: Node, scope: Scope) -> str:
    value = value_of(node, scope)
    if isinstance(value, str):
        return value
    if value is None or value is LEFT_OUT:
        shown = f"${{{node}}}" if isinstance(node, Path) else "a reference"
        raise EvaluationError(
            f"{shown} inside a text is {kind_of(value)}; write what stands for it behind ??, such "
            'as ?? ""'
        )
    try:
        return msgspec.json.encode(value).decode()
    except (TypeError, ValueError, RecursionError) as error:
        raise EvaluationError(
            f"a {type(value).__name__} cannot be put into a text: {error}"
        ) from error
