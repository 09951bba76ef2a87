"""How is a mistake at one place of a definition described?"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple

from tool_engine.catalog.yaml.document import Marked, Path, format_path
from tool_engine.errors import DefinitionProblem
from tool_engine.redaction import HIDDEN, is_secret_key, redact_text, secret_forms

_LONGEST_TEXT: Final = 80
"""Characters of a text that a message repeats."""


class Fault(NamedTuple):
    """One mistake in a definition, with no line number yet."""

    path: Path
    message: str = ""
    """What is wrong, perhaps with the cure after `; `; empty if `expected` and `got` say it."""
    at_key: bool = False
    """The place is the key at `path`, not its value."""
    expected: str = ""
    got: str = ""
    nearest: str = ""
    cure: str = ""
    key: str = ""
    """The key that an unknown one means, or that is missing here."""
    place: Path = ()
    """Where an unknown key belongs, if that is sure."""
    rule: Path = ()
    """Where `definition.schema.json` says what is right here; empty if it does not say it."""

    @property
    def sentence(self) -> str:
        """The mistake, what was expected and found, and the cure."""
        wrong = self.message or f"expected {self.expected}, got {self.got}"
        hint = f"; did you mean {self.nearest!r}?" if self.nearest else ""
        return f"{wrong}{hint}{'; ' if self.cure else ''}{self.cure}"


def locate_faults(
    faults: Sequence[Fault], source: str, document: Marked | None
) -> list[DefinitionProblem]:
    """Return the faults as problems with line and column, in order."""
    if document is None or not faults:
        return [_make_problem(_hide_secret(fault), source, None, None) for fault in faults]
    marks = document.marks((fault.path, fault.at_key) for fault in faults)
    problems = [
        _make_problem(
            _hide_secret(_as_written(fault, document, mark), document.value),
            source,
            mark.line + 1,
            mark.column + 1,
        )
        for fault, mark in zip(faults, marks, strict=True)
    ]
    return sorted(problems, key=lambda problem: (problem.line or 0, problem.column or 0))


def list_names(names: Iterable[object]) -> str:
    shown = [str(name)[:40] for name in islice(names, 21)]
    return ", ".join([*shown[:20], "…"] if len(shown) > 20 else shown)


def _make_problem(
    fault: Fault, source: str, line: int | None, column: int | None
) -> DefinitionProblem:
    return DefinitionProblem(
        message=fault.sentence,
        file=source,
        line=line,
        column=column,
        path=format_path(fault.path),
        expected=fault.expected,
        got=fault.got,
        nearest=fault.nearest,
        cure=fault.cure or fault.message.partition("; ")[2],
    )


def _hide_secret(fault: Fault, definition: Any = None) -> Fault:
    """Return the fault without the secret at its path."""
    texts = [fault.message, fault.expected, fault.got, fault.cure]
    secret = find_secret(fault.path, definition)
    forms = {*secret_forms(secret), *secret_forms(secret[:_LONGEST_TEXT])}
    for form in sorted(forms, key=len, reverse=True):
        texts = [text.replace(form, HIDDEN) for text in texts]
    message, expected, got, cure = map(redact_text, texts)
    return fault._replace(message=message, expected=expected, got=got, cure=cure)


def find_secret(path: Path, definition: Any) -> str:
    """Return the text at `path` if its name marks a secret."""
    value = definition
    for step in path:
        try:
            value = value[step]
        except (LookupError, TypeError):
            return ""
    # A flag is no secret: `secret: 'true'` is shown as it stands there.
    is_flag = str(value).lower() in ("true", "false", "yes", "no", "on", "off")
    is_shown = is_flag or not isinstance(value, str | int | float)
    return "" if is_shown or not is_secret_place(path, definition) else str(value)


def is_secret_place(path: Path, definition: Any) -> bool:
    """Return True if a name on the way to `path` marks a secret."""
    value, is_secret = definition, False
    for step in path:
        if isinstance(value, dict):
            is_value = step in ("default", "validation", "enum", "schema")
            is_declared = value.get("secret") is True or is_secret_key(str(value.get("name")))
            is_secret |= is_value and is_declared
            is_secret |= is_secret_key(str(step))
        try:
            value = value[step]
        except (LookupError, TypeError):
            break
    return is_secret


def _as_written(fault: Fault, document: Marked, mark: Any) -> Fault:
    if fault.got == "nothing" and (comment := document.read_comment(mark)):
        quoted = json.dumps(comment[:_LONGEST_TEXT], ensure_ascii=False)
        shown = "" if is_secret_place(fault.path, document.value) else f": {quoted}"
        cure = f"what stands there is a comment: quote a text that begins with #{shown}"
        return fault._replace(cure=cure)
    # 1.10 is read as the number 1.1, which the author would not find in the file.
    if not fault.got.startswith("the number"):
        return fault
    written = document.number_as_written(fault.path, mark)
    return fault if written is None else fault._replace(got=f"the number {written[:80]}")
