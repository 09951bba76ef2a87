"""How do several conversations all have their say about one call?

A tool that one conversation calls may hold another one. What that calls is part of both: each of
them may forbid it, and neither can allow what the other one forbids.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextvars import ContextVar
from functools import partial
from typing import Any, Final

from tool_engine.interfaces import CallScope, ToolExecutor
from tool_engine.model.call import Refusal
from tool_engine.model.json.copying import live
from tool_engine.model.outcome import ErrorType
from tool_engine.model.record import ToolCallRecord
from tool_engine.model.tool import Tool

__all__ = ["IS_SHARED", "NarrowedScope", "narrowed", "token_of"]

_NONE: Final = frozenset[str]()
IS_SHARED: Final[ContextVar[bool]] = ContextVar("is_shared", default=False)
"""Whether other conversations have a say in the call that is asked about now."""


@live("pickle context.to_wire(), or a replace(context, scope=None) without its conversations")
class NarrowedScope:
    """Conversations of which each was begun by a tool that the one before it had called.

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
        """Where the content came from that any of them knows of; what is added, all get to know."""
        known: list[Any] = [getattr(part, "labels", None) for part in self.parts]
        return _Labels(each for each in known if isinstance(each, set))

    @property
    def conversation(self) -> tuple[object, ...]:
        """What says by which rules and labels the calls go that its tool makes."""
        return tuple(getattr(part, "conversation", part) for part in self.parts)

    @property
    def line(self) -> tuple[Any, ...]:
        """What all of them spend, and those that they work for."""
        lines = [each for part in self.parts for each in getattr(part, "line", ())]
        return tuple(dict.fromkeys(lines))

    def uses_of(self, tool: Tool, engine: object) -> list[Any]:
        """A call of a tool in the books of each of them, once, where it was not counted yet."""
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
        """A tool that only the innermost conversation has: it is the one that calls."""
        return self.parts[-1].own(tool_name)

    def has_engine(self, engine: object, tool_name: str) -> bool:
        """Whether one of them has the tools of an engine, of which one has this name."""
        asked = [getattr(part, "has_engine", None) for part in self.parts]
        return any(ask is not None and ask(engine, tool_name) is True for ask in asked)

    def is_free(self, call_id: str, tool: Tool, params: dict[str, Any]) -> bool:
        """Whether none of them has anything to say about the call."""
        asked = [getattr(part, "is_free", None) for part in self.parts]
        return all(ask is not None and ask(call_id, tool, params) is True for ask in asked)

    def note_inside(self, tools: Iterable[Tool]) -> None:
        """A call shares the result of another one, whose tool has called these."""
        tools = list(tools)
        for part in self.parts:
            note: Any = getattr(part, "note_inside", None)
            if note is not None:
                note(tools)

    def refusal_since(self, call_id: str, tool: Tool, params: dict[str, Any]) -> Refusal | None:
        """Why a call that was let through may not start any more; None: it may."""
        for part in self.parts:
            find: Any = getattr(part, "refusal_since", None)
            refusal: Refusal | None = None if find is None else find(call_id, tool, params)
            if refusal is not None:
                return refusal
        return None

    def shown_tool(self, tool: Tool) -> Tool | None:
        """A tool of the engine as the model knows it that is talked to: the innermost one's."""
        find: Any = getattr(self.parts[-1], "shown_tool", None)
        return tool if find is None else find(tool)

    def refusal_of_result(self, record: ToolCallRecord, tool: Tool | None) -> Refusal | None:
        """Why none of them lets a result of its calls be read; None: it may be."""
        refusal = Refusal(ErrorType.RESULT_REJECTED.value, "no conversation here has made the call")
        for part in reversed(self.parts):
            find: Any = getattr(part, "refusal_of_result", None)
            if find is None:
                continue
            said: Refusal | None = find(record, tool)
            if said is None:
                # Where it came from, all get to know.
                self.labels.update(getattr(part, "labels", _NONE))
                return None
            refusal = said
        return refusal

    async def consent(self, call_id: str, tool: Tool, params: dict[str, Any]) -> Refusal | None:
        """Why the call may not run, by the first of them that says so; None: it may.

        Where one of them is asked later, the others have their say all the same: when that one is
        answered, they are not asked any more.
        """
        waiting: tuple[Any, Refusal] | None = None
        for place, part in enumerate(self.parts):
            refusal = await self._said_by(place, call_id, tool, params)
            if refusal is None:
                continue
            token = token_of(refusal)
            if token is not None and waiting is None:
                # What said the token is asked again by it.
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
            # It is asked further in, once; what went into its own call counts all the same.
            ask = part.lets_in  # type: ignore[attr-defined]
        has_others = any(not _is_of_one(each, part) for each in self.parts)
        before = IS_SHARED.set(has_others)
        try:
            refusal: Refusal | None = await ask(tool, params)
        finally:
            IS_SHARED.reset(before)
        return refusal


class _Labels(set[str]):
    """The labels of several scopes, in one."""

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


def narrowed(outer: CallScope | None, inner: CallScope | None) -> CallScope | None:
    """The scope of a call that a tool of `outer` makes for `inner`; None: of no conversation."""
    if outer is None or inner is None:
        return inner or outer
    parts = {id(each): each for each in (*_parts(outer), *_parts(inner))}
    return NarrowedScope(tuple(parts.values())) if len(parts) > 1 else inner


def token_of(refusal: Refusal | None) -> str | None:
    """What names the request that a call waits for; None: it waits for none."""
    token = None if refusal is None else (refusal.details or {}).get("approval_token")
    return None if token is None else str(token)


def _of_two(tool: Tool) -> Refusal:
    message = (
        f"two conversations must consent to this call of {tool.name!r}, and neither was answered "
        "at once: give one of them an approver that answers while the call waits"
    )
    return Refusal(ErrorType.EXECUTION_REJECTED.value, message)


def _parts(scope: CallScope) -> tuple[CallScope, ...]:
    return scope.parts if isinstance(scope, NarrowedScope) else (scope,)


def _is_of_one(one: CallScope, other: CallScope) -> bool:
    """Whether both are of one conversation and its helpers."""
    return one is other or _speaks_for(one, other) or _speaks_for(other, one)


def _speaks_for(later: CallScope, part: CallScope) -> bool:
    """Whether one asks all that the other would: it is of the same conversation, or a helper's."""
    own: Any = getattr(part, "line", ())
    return bool(own) and own[0] in getattr(later, "line", ()) and hasattr(part, "lets_in")
