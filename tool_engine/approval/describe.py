"""What does a person read who is asked for consent?

Secrets are hidden, long values are cut in the middle with the count, and no argument can be made to
look like another one.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Collection, Mapping
from typing import Any, Final

from tool_engine.model.approval import ApprovalRequest
from tool_engine.model.json.returned_value import to_text
from tool_engine.redaction import OwnSecrets
from tool_engine.visible import cut_middle, escape_hidden

_LONGEST_VALUE: Final = 2_000
_LONGEST_TEXT: Final = 20_000
_LONGEST_HEADLINE: Final = 200
_MOST_LINES: Final = 400
"""Lines that a difference is computed for: the time grows with their square."""
_EFFECTS: Final = {"read": "only reads", "write": "changes something"}


def describe(request: ApprovalRequest) -> str:
    """Return a request as plain text of several lines, safe for a terminal."""
    effect = _EFFECTS.get(request.effect, "the definition does not say whether it changes anything")
    own, called = (
        escape_hidden(request.tool_name),
        escape_hidden(request.called_name or request.tool_name),
    )
    name = own if request.is_nested else called
    lines = [f"{name} {escape_hidden(request.tool_version)} ({effect})"]
    if own != called:
        lines.append(f"  called by {called}" if request.is_nested else f"  {own} in its engine")
    shown = shown_fields(request)
    words = f"{request.title}: {request.description}" if request.title else request.description
    about = escape_hidden(" ".join(words.split()))
    if about:
        lines.append(f"  {cut_middle(about, _LONGEST_HEADLINE)}")
    lines += [f"  {line}" for line in argument_lines(shown["params"])] or ["  no arguments"]
    if shown["preview"]:
        lines += ["What would change:", *_indent_text(shown["preview"])]
    if shown["result"] is not None:
        lines += ["What the model would read:", *_indent_text(shown["result"])]
    return "\n".join(lines)


def shown_fields(request: ApprovalRequest) -> dict[str, Any]:
    """Return `params`, `preview` and `result` of a request with secrets hidden.

    A secret is hidden by its name, and where its value appears elsewhere.
    """
    secrets = _secrets_of(request.params, request.secret_names)
    return {
        "params": secrets.params(request.params),
        "preview": secrets.hide(request.preview),
        "result": secrets.hide(request.result),
    }


def argument_lines(params: Mapping[str, Any]) -> list[str]:
    """Return one line per argument: texts quoted, other values as JSON."""
    lines = []
    for name, value in params.items():
        text = json.dumps(value, ensure_ascii=False) if type(value) is str else to_text(value)
        # JSON writes line breaks out, so that a value cannot pass for another argument.
        lines.append(
            f"{escape_hidden(str(name))}: {cut_middle(escape_hidden(text), _LONGEST_VALUE)}"
        )
    return lines


def describe_difference(
    before: Mapping[str, Any], params: Mapping[str, Any], secret_names: Collection[str] = ()
) -> str | None:
    """Return how arguments differ from others; None: not, or too many lines."""
    # A former secret may stand elsewhere now.
    secrets = _secrets_of({"before": before, "now": params}, secret_names)
    old, new = (_write_lines(secrets.params(each)) for each in (before, params))
    if old == new or max(len(old), len(new)) > _MOST_LINES:
        return None
    names = ("the arguments that were allowed last", "these arguments")
    changes = difflib.unified_diff(old, new, *names, lineterm="", n=1)
    return cut_middle("\n".join(changes), _LONGEST_TEXT)


def _secrets_of(params: Mapping[str, Any], names: Collection[str]) -> OwnSecrets:
    return OwnSecrets(params, names, names)


def _write_lines(params: Mapping[str, Any]) -> list[str]:
    lines = []
    for name, value in params.items():
        if type(value) is str and "\n" in value:
            lines += [f"{name}:", *(f"  {escape_hidden(each)}" for each in value.split("\n"))]
        else:
            lines += argument_lines({name: value})
    return [cut_middle(line, _LONGEST_VALUE) for line in lines]


def _indent_text(text: str) -> list[str]:
    shown = cut_middle(escape_hidden(text, keeps_lines=True), _LONGEST_TEXT)
    return [f"  {line}" for line in shown.split("\n")]
