"""How do arguments that come piece by piece, each with its place, become one object?

On request, Vertex AI streams a call's arguments as `partialArgs`: each a value or a part of a text,
with a JSON Path. https://datatracker.ietf.org/doc/html/rfc9535
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from typing import Any, Final

from tool_engine.protocols.gemini.gemini_reader import camel_keys, get_field

_STEP: Final = re.compile(
    r"""\.(?P<name>[^.\[\]]+)|\[(?P<index>\d+)\]|\[(?P<quoted>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")\]""",
    re.DOTALL,
)
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)
_VALUES: Final = {"stringValue": str, "numberValue": int | float, "boolValue": bool}
_KEYS: Final = frozenset({"jsonPath", "nullValue", "willContinue", *_VALUES})
_MAX_STEPS: Final = 100


class _Text(list[str]):
    is_open = True


class PartialArguments:
    def __init__(self) -> None:
        self._root: dict[str, Any] = {}
        self._texts: dict[str, _Text] = {}
        self.fault: str | None = None

    def take(self, piece: Mapping[str, Any]) -> None:
        """Take one of `partialArgs`.

        One without a value is a null that the SDK left out, or it opens or closes a text.
        """
        path = get_field(piece, "jsonPath")
        given = {kind: value for kind in _VALUES if (value := get_field(piece, kind)) is not None}
        values = [value for kind, value in given.items() if isinstance(value, _VALUES[kind])]
        goes_on = get_field(piece, "willContinue") is True
        steps = _split_path(path)
        is_known = _KEYS.issuperset(camel_keys(piece))
        if steps is None or len(given) > 1 or len(values) != len(given) or not is_known:
            self._note_fault(f"a part of the arguments cannot be read: {str(piece)[:80]}")
            return
        if not values and (goes_on or path in self._texts):
            values = [""]
        if values and isinstance(values[0], str):
            self._extend_text(steps, path, values[0])
            self._texts[path].is_open = goes_on
        else:
            self._put_value(steps, path, values[0] if values else None)

    def update(self, arguments: Mapping[str, Any]) -> None:
        self._root.update(arguments)

    def value(self) -> dict[str, Any]:
        whole: dict[str, Any] = _join_texts(self._root)
        return whole

    @property
    def open_text(self) -> str | None:
        return next((path for path, text in self._texts.items() if text.is_open), None)

    def _note_fault(self, fault: str) -> None:
        self.fault = self.fault or fault

    def _extend_text(self, steps: list[str | int], path: str, text: str) -> None:
        known = self._texts.get(path)
        if known is None:
            known = self._texts[path] = _Text()
            self._put_value(steps, path, known)
        elif not known.is_open:
            self._note_fault(f"{path[:80]} was sent twice")
        known.append(text)

    def _put_value(self, steps: list[str | int], path: str, value: Any) -> None:
        holder: Any = self._root
        for step, following in itertools.pairwise(steps):
            holder = _enter_step(holder, step, [] if isinstance(following, int) else {})
        if not _set_value(holder, steps[-1], value):
            self._note_fault(f"{path[:80]} was sent twice, or has no place")


def _enter_step(holder: Any, step: str | int, fresh: Any) -> Any:
    if isinstance(step, str):
        return holder.setdefault(step, fresh) if type(holder) is dict else None
    if type(holder) is not list or step > len(holder):
        return None
    if step == len(holder):
        holder.append(fresh)
    return holder[step]


def _set_value(holder: Any, step: str | int, value: Any) -> bool:
    if isinstance(step, str):
        is_free = type(holder) is dict and step not in holder
        if is_free:
            holder[step] = value
        return is_free
    # Only the next place: a model could ask for the billionth.
    is_next = type(holder) is list and step == len(holder)
    if is_next:
        holder.append(value)
    return is_next


def _split_path(path: Any) -> list[str | int] | None:
    if not isinstance(path, str) or not path.startswith("$"):
        return None
    steps: list[str | int] = []
    place = 1
    while place < len(path):
        found = _STEP.match(path, place)
        if found is None or len(steps) == _MAX_STEPS:
            return None
        place = found.end()
        name, index, quoted = found.group("name", "index", "quoted")
        if index is not None:
            steps.append(int(index[:9]))
        else:
            steps.append(_ESCAPED.sub(r"\1", quoted[1:-1]) if name is None else name)
    return steps if steps and isinstance(steps[0], str) else None


def _join_texts(value: Any) -> Any:
    if isinstance(value, _Text):
        return "".join(value)
    if isinstance(value, dict):
        return {key: _join_texts(item) for key, item in value.items()}
    return [_join_texts(item) for item in value] if isinstance(value, list) else value
