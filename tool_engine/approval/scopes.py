"""How do several conversations each have a say in one call?

A tool that one conversation calls may run another one, whose calls are then part of both. Each can
forbid a call, and neither can allow what the other forbids.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextvars import ContextVar
from functools import partial
from typing import Any, Final

from tool_engine.interfaces import CallScope, ToolExecutor
from tool_engine.model.call import Refusal
from tool_engine.model.json.copying import refuse_copying
from tool_engine.model.outcome import ErrorType
from tool_engine.model.record import ToolCallRecord
from tool_engine.model.tool import Tool

_NONE: Final = frozenset[str]()
IS_SHARED: Final[ContextVar[bool]] = ContextVar("is_shared", default=False)
"""Whether other conversations have a say in the call being asked about."""


@refuse_copying(
    "pickle context.to_wire(), or a replace(context, scope=None) without its conversations"
)
class NarrowedScope:
    """The scopes of nested conversations, each started by the one before.

    Args:
        parts: Their scopes, the outermost first.
    """

    __slots__ = ("parts",)

    def __init__(self, parts: tuple[CallScope, ...]) -> None:
        self.parts = parts

    def __repr__(self) -> str:
        return f"<NarrowedScope of {len(self.parts)}>"

    @property
    def labels(self) -> set[str]:
        """The content sources that any of them knows; additions reach all."""
        known: list[Any] = [getattr(part, "labels", None) for part in self.parts]
        return _Labels(each for each in known if isinstance(each, set))

    @property
    def conversation(self) -> tuple[object, ...]:
        """The conversations whose rules and labels apply to calls made by the tool."""
        return tuple(getattr(part, "conversation", part) for part in self.parts)

    @property
    def line(self) -> tuple[Any, ...]:
        """The budgets of all, and of the conversations they work for."""
        lines = [each for part in self.parts for each in getattr(part, "line", ())]
        return tuple(dict.fromkeys(lines))

    def uses_of(self, tool: Tool, engine: object) -> list[Any]:
        """Return the call's uses in all books, each unpaid one once."""
        paid: set[Any] = set()
        for part in self.parts:
            if not getattr(part, "has_begun", True):
                paid.update(getattr(part, "paid", ()))
        uses: dict[Any, Any] = {}
        for part in self.parts:
            find: Any = getattr(part, "uses_of", None)
            for each in () if find is None else find(tool, engine):
                if each.spending not in paid:
                    uses[each.spending] = each
        return list(uses.values())

    def own(self, tool_name: str) -> tuple[Tool, ToolExecutor] | None:
        """Return a tool that only the innermost, calling conversation has."""
        return self.parts[-1].own(tool_name)

    def has_engine(self, engine: object, tool_name: str) -> bool:
        asked = [getattr(part, "has_engine", None) for part in self.parts]
        return any(ask is not None and ask(engine, tool_name) is True for ask in asked)

    def is_free(self, call_id: str, tool: Tool, params: dict[str, Any]) -> bool:
        """Return True if no conversation objects to or asks about the call."""
        asked = [getattr(part, "is_free", None) for part in self.parts]
        return all(ask is not None and ask(call_id, tool, params) is True for ask in asked)

    def note_inside(self, tools: Iterable[Tool]) -> None:
        """Note the calls inside a call whose result this one shares."""
        tools = list(tools)
        for part in self.parts:
            note: Any = getattr(part, "note_inside", None)
            if note is not None:
                note(tools)

    def refusal_since(self, call_id: str, tool: Tool, params: dict[str, Any]) -> Refusal | None:
        """Return why an admitted call may not start any more, or None."""
        for part in self.parts:
            find: Any = getattr(part, "refusal_since", None)
            refusal: Refusal | None = None if find is None else find(call_id, tool, params)
            if refusal is not None:
                return refusal
        return None

    def shown_tool(self, tool: Tool) -> Tool | None:
        """Return a tool as the innermost conversation's model knows it."""
        find: Any = getattr(self.parts[-1], "shown_tool", None)
        return tool if find is None else find(tool)

    def refusal_of_result(self, record: ToolCallRecord) -> Refusal | None:
        """Return why the result of a call may not be read, or None."""
        refusal = Refusal(ErrorType.RESULT_REJECTED.value, "no conversation here has made the call")
        for part in reversed(self.parts):
            find: Any = getattr(part, "refusal_of_result", None)
            if find is None:
                continue
            said: Refusal | None = find(record)
            if said is None:
                # All learn where the content came from.
                self.labels.update(getattr(part, "labels", _NONE))
                return None
            refusal = said
        return refusal

    async def consent(self, call_id: str, tool: Tool, params: dict[str, Any]) -> Refusal | None:
        """Return the first refusal by any of the conversations, or None.

        If one of them defers its question, the others are asked all the same, and not again once it
        is answered.
        """
        waiting: tuple[Any, Refusal] | None = None
        for place, part in enumerate(self.parts):
            refusal = await self._said_by(place, call_id, tool, params)
            if refusal is None:
                continue
            token = token_of(refusal)
            if token is not None and waiting is None:
                # The conversation that issued the token is asked again with it.
                share: Any = getattr(part, "share", None)
                if share is not None:
                    share(token, self.parts)
                waiting = part, refusal
                continue
            for each, later in ((part, refusal), *filter(None, [waiting])):
                take_back: Any = getattr(each, "take_back", None)
                if take_back is not None and (closed := token_of(later)) is not None:
                    await take_back(closed)
            return refusal if token is None else _of_two(tool)
        return None if waiting is None else waiting[1]

    async def _said_by(
        self, place: int, call_id: str, tool: Tool, params: dict[str, Any]
    ) -> Refusal | None:
        part = self.parts[place]
        ask: Any = partial(part.consent, call_id)
        if any(_speaks_for(later, part) for later in self.parts[place + 1 :]):
            # An inner conversation asks once; its own call's labels count all the same.
            ask = part.lets_in  # type: ignore[attr-defined]
        has_others = any(not _is_of_one(each, part) for each in self.parts)
        before = IS_SHARED.set(has_others)
        try:
            refusal: Refusal | None = await ask(tool, params)
        finally:
            IS_SHARED.reset(before)
        return refusal


class _Labels(set[str]):
    def __init__(self, sets: Iterable[set[str]]) -> None:
        self._sets = list(sets)
        super().__init__(_NONE.union(*self._sets))

    def add(self, label: str) -> None:
        self.update((label,))

    def update(self, *labels: Iterable[str]) -> None:
        added = _NONE.union(*labels)
        super().update(added)
        for each in self._sets:
            each.update(added)


def narrow_scope(outer: CallScope | None, inner: CallScope | None) -> CallScope | None:
    """Return the scope of a call from `outer` for `inner`."""
    if outer is None or inner is None:
        return inner or outer
    parts = {id(each): each for each in (*_split_scope(outer), *_split_scope(inner))}
    return NarrowedScope(tuple(parts.values())) if len(parts) > 1 else inner


def token_of(refusal: Refusal | None) -> str | None:
    """Return the token of the request that a call waits for, or None."""
    token = None if refusal is None else (refusal.details or {}).get("approval_token")
    return None if token is None else str(token)


def _of_two(tool: Tool) -> Refusal:
    message = (
        f"two conversations must consent to this call of {tool.name!r}, and neither was answered "
        "at once: give one of them an approver that answers while the call waits"
    )
    return Refusal(ErrorType.EXECUTION_REJECTED.value, message)


def _split_scope(scope: CallScope) -> tuple[CallScope, ...]:
    return scope.parts if isinstance(scope, NarrowedScope) else (scope,)


def _is_of_one(one: CallScope, other: CallScope) -> bool:
    """Return True if both belong to one conversation and its helpers."""
    return one is other or _speaks_for(one, other) or _speaks_for(other, one)


def _speaks_for(later: CallScope, part: CallScope) -> bool:
    """Return True if one's questions cover the other's: same conversation, or its helper."""
    own: Any = getattr(part, "line", ())
    return bool(own) and own[0] in getattr(later, "line", ()) and hasattr(part, "lets_in")
