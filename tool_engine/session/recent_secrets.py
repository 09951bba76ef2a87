"""Which secrets did a conversation's newest calls run with? Later words may repeat them.

Noted are the values that a call ran with: a model that refers to a variable never wrote its value,
and what it wrote does not show what to hide.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final
from weakref import WeakMethod

import msgspec

from tool_engine.errors import VariableError
from tool_engine.model.tool import Tool
from tool_engine.redaction import OwnSecrets, secrets_of
from tool_engine.session.variables.references import expand_references
from tool_engine.session.variables.store import VariableStore

_MOST: Final = 64
"""How many calls' secrets are remembered, to hide them in later error messages."""


class RecentSecrets:
    """The secrets of a conversation's newest calls, the oldest first; its helpers share it.

    Args:
        variables: What references in kept calls stand for.
    """

    def __init__(self, variables: VariableStore) -> None:
        self._variables = variables
        self._known: deque[OwnSecrets] = deque(maxlen=_MOST)
        self._heard_by: list[WeakMethod[Callable[[OwnSecrets], object]]] = []

    def __iter__(self) -> Iterator[OwnSecrets]:
        return iter(tuple(self._known))

    def watch(self, hear: Callable[[OwnSecrets], object]) -> None:
        """Report each call's secrets to a method, for as long as its object lives."""
        self._heard_by = [each for each in self._heard_by if each() is not None]
        self._heard_by.append(WeakMethod(hear))

    def note(self, tool: Tool, params: Any) -> None:
        """Remember the secrets that a call of a tool runs with, references replaced."""
        if (tool.secret_names or tool.secret_parts) and isinstance(params, Mapping):
            self.add(secrets_of(tool, params))

    def note_kept(self, tool: Tool, params: dict[str, Any]) -> None:
        """Remember those of a call in a kept conversation, as its model wrote it.

        A reference stands for what its variable has now: what it had is not known any more.
        """
        if tool.secret_names or tool.secret_parts:
            self.add(secrets_of(tool, read_kept_arguments(tool, params, self._variables)))

    def add(self, secrets: OwnSecrets) -> None:
        if not any(each.hides_the_same(secrets) for each in self._known):
            self._known.append(secrets)
        for hear in [each() for each in self._heard_by]:
            if hear is not None:
                hear(secrets)


def read_kept_arguments(
    tool: Tool, params: dict[str, Any], variables: VariableStore
) -> dict[str, Any]:
    """Return what a call was sent, from what a transcript has of it.

    There every value is a text, and a reference stands for itself. One that leads nowhere any more
    stays as it is, and takes no other with it.
    """
    texts = {each.name for each in tool.parameters if each.type == "string"}
    # Read before anything is put in, which may have quotes.
    read = {key: value if key in texts else _read_json(value) for key, value in params.items()}
    for key, value in read.items():
        with suppress(VariableError):
            read[key] = expand_references({key: value}, variables).params[key]
    return read


def _read_json(text: Any) -> Any:
    if isinstance(text, str):
        with suppress(msgspec.DecodeError, RecursionError, ValueError):
            return msgspec.json.decode(text)
    return text
