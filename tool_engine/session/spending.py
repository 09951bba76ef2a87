"""What has one conversation spent, against its own bounds alone?

Everything is decided at once, without waiting.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Final

import msgspec

from tool_engine.interfaces.source import Source
from tool_engine.model.call import Refusal
from tool_engine.model.outcome import ErrorType
from tool_engine.model.tool import Tool
from tool_engine.session.config import ToolCallConfig
from tool_engine.sources.identity import identity_in, identity_of, identity_of_own
from tool_engine.sources.owners import leaf_of

_Count = Annotated[int, msgspec.Meta(ge=0)]
ROUNDS: Final = "max_rounds_reached"
CALLS: Final = "max_calls_reached"
TOKENS: Final = "max_tokens_reached"
SECONDS: Final = "max_seconds_reached"
_REMEMBERED: Final = 1_000


class Kept(msgspec.Struct, forbid_unknown_fields=True):
    """The state that outlives a process; its turn bounds nothing."""

    turns: _Count = 0
    calls: _Count = 0
    input_tokens: _Count = 0
    output_tokens: _Count = 0
    total_tokens: _Count = 0
    by_tool: dict[str, _Count] = {}
    uses: dict[str, _Count] | None = None
    """Calls by the tool's identity; None: saved by a version that counted by name."""
    rounds: _Count = 0
    calls_of_turn: _Count = 0
    seconds: Annotated[float, msgspec.Meta(ge=0)] = 0.0


class Spending:
    def __init__(
        self,
        config: ToolCallConfig,
        clock: Callable[[], float],
        identity: Callable[[str], str] | None,
        stamp: Callable[[], object] = lambda: None,
        catalog: Callable[[], Source] | None = None,
    ) -> None:
        self.config = config
        self.identity = identity
        self.catalog = catalog
        self._stamp = stamp
        self._most: tuple[object, object, dict[str, int]] = (None, None, {})
        """The most calls by tool, and the settings and the stamp that they were found from."""
        self.uses: dict[str, int] = {}
        """Calls of each tool by its identity, whatever name was called."""
        self._names: dict[tuple[int, int], tuple[Tool, Source, str, str]] = {}
        """Tools by the ids of them and their engines, which are held: see `names_of`."""
        self.kept = Kept()
        self.rounds = 0
        self.calls_of_turn = 0
        self._clock = clock
        self._began: float | None = None
        self._seconds = 0.0
        self.stopped: Refusal | None = None
        """Why no further call of the turn may run, even within the bounds."""

    def begin_turn(self) -> None:
        self.kept.turns += 1
        self.rounds = self.calls_of_turn = 0
        self.stopped = None
        self._began = self._clock()

    def end_turn(self) -> None:
        """End the turn: later calls belong to none."""
        self._seconds, self._began = self.seconds, None
        self.stopped = None

    def tool_of(self, tool_name: str) -> str:
        """Return the identity of the tool of this name."""
        return tool_name if self.identity is None else self.identity(tool_name)

    def names_of(self, tool: Tool, engine: Source | None) -> tuple[str, str]:
        """Return the conversation's name for an engine's tool, and its identity.

        Args:
            tool: In the form in which the engine has it.
            engine: Which one; None: only a conversation has the tool.
        """
        if engine is None:
            return tool.name, identity_of_own(tool.name)
        if self.catalog is None:
            return tool.name, tool.name
        # To look through a view of thousands of tools costs more than the call.
        known = self._names.get((id(tool), id(engine)))
        if known is None:
            if len(self._names) >= _REMEMBERED:
                self._names.clear()
            catalog = self.catalog()
            leaf = leaf_of(catalog, engine, tool.name) or engine
            shown = catalog.find_shown_names(tool, leaf)
            name = shown[0] if shown else tool.name
            known = tool, engine, name, identity_in(catalog, leaf, tool.name)
            self._names[id(tool), id(engine)] = known
        return known[2:]

    def names_for(self, tool_name: str, other: Spending) -> tuple[str, str]:
        """Return the same in the conversation `other`, for a name here."""
        identity = self.tool_of(tool_name)
        if self.catalog is None or other.catalog is None:
            return tool_name, identity
        catalog = self.catalog()
        if identity != identity_of(catalog, tool_name):
            # Only this conversation has it.
            return tool_name, identity
        engine, name = catalog.find_origin(tool_name)
        tool = engine.get(name)
        if tool is None:
            return tool_name, identity_in(other.catalog(), engine, name)
        return other.names_of(tool, engine)

    def set_turn(self, rounds: int, calls: int, seconds: float) -> None:
        """Set what the last turn spent, perhaps in another process."""
        self.rounds, self.calls_of_turn, self._seconds, self._began = rounds, calls, seconds, None

    def count_call(self, tool_name: str, tool: str, *, is_asked_for: bool = True) -> None:
        """Count a call, for the turn only if the conversation asked."""
        self.uses[tool] = self.uses.get(tool, 0) + 1
        self.kept.calls += 1
        self.calls_of_turn += is_asked_for
        self.kept.by_tool[tool_name] = self.kept.by_tool.get(tool_name, 0) + 1

    def uncount_call(self, tool_name: str, tool: str, *, is_asked_for: bool = True) -> None:
        """Take back a counted call; a new turn may have begun since."""
        for counts, name in ((self.uses, tool), (self.kept.by_tool, tool_name)):
            left = counts.pop(name, 0) - 1
            if left > 0:
                counts[name] = left
        self.kept.calls = max(0, self.kept.calls - 1)
        self.calls_of_turn = max(0, self.calls_of_turn - is_asked_for)

    def count_tokens(self, read: int, wrote: int, total: int) -> None:
        """Add the tokens of one reply."""
        self.kept.input_tokens += read
        self.kept.output_tokens += wrote
        self.kept.total_tokens += total

    @property
    def is_in_turn(self) -> bool:
        return self._began is not None

    @property
    def seconds(self) -> float:
        """Seconds of the running turn so far, or of the last one."""
        return self._seconds if self._began is None else self._clock() - self._began

    @property
    def seconds_left(self) -> float | None:
        """Seconds until the turn must have ended, at least 0."""
        most = self.config.max_seconds
        return None if most is None or self._began is None else max(0.0, most - self.seconds)

    @property
    def has_spent_tokens(self) -> bool:
        return _is_reached(self.config.max_tokens, self.kept.total_tokens)

    @property
    def has_spent_calls(self) -> bool:
        """Return True if a bound of calls is used up."""
        is_turn_over = self.is_in_turn and self.calls_of_turn >= self.config.max_calls_per_turn
        return is_turn_over or _is_reached(self.config.max_calls, self.kept.calls)

    def _find_most_uses(
        self, tool: str, max_uses: int | None, config: ToolCallConfig
    ) -> int | None:
        uses, stamp, most = self._most
        if uses is not config.max_uses or stamp is not self._stamp():
            # Of several names of one tool the least comes last, and stays.
            said = sorted(config.max_uses.items(), key=lambda each: -each[1])
            most = {tool: each for name, each in said for tool in self._find_meant(name)}
            self._most = config.max_uses, self._stamp(), most
        return most.get(tool, max_uses)

    def _find_meant(self, name: str) -> list[str]:
        """Return the identities of the tools that a setting names."""
        found = [self.tool_of(name)]
        if self.catalog is not None and (catalog := self.catalog()).get(name) is None:
            engines = [each for each in catalog.list_origins() if each.get(name) is not None]
            found += [identity_in(catalog, each, name) for each in engines]
        return found

    def refusal(  # noqa: PLR0911 - one for each bound
        self,
        tool_name: str,
        tool: str,
        max_uses: int | None,
        config: ToolCallConfig,
        *,
        is_asked_for: bool = True,
    ) -> Refusal | None:
        """Return why one more call may not run, or None.

        Args:
            tool_name: The tool, as the conversation calls it.
            tool: Its identity.
            max_uses: What its definition says.
            config: The settings that bound it.
            is_asked_for: Whether the model asks for it; of what a tool calls, only bounds on what
                runs count.
        """
        if is_asked_for and self.stopped is not None:
            return self.stopped
        if self.config.max_seconds is not None and self.seconds_left == 0:
            return limit_refusal(SECONDS, "the time of the turn is up")
        if is_asked_for:
            most = config.max_tokens
            if most is not None and self.kept.total_tokens >= most:
                return _refuse_more(TOKENS, most, "token", "of the conversation")
            most = config.max_calls_per_turn
            if self._began is not None and self.calls_of_turn >= most:
                return _refuse_more(CALLS, most, "call", "of one turn")
        most = config.max_calls
        if most is not None and self.kept.calls >= most:
            return _refuse_more(CALLS, most, "call", "of the conversation")
        most = self._find_most_uses(tool, max_uses, config) if config.max_uses else max_uses
        if most is not None and self.uses.get(tool, 0) >= most:
            where = f"of {tool_name!r} in one conversation"
            return _refuse_more("max_uses_reached", most, "call", where)
        return None


class InnerUse:
    """One call that a tool makes, counted in one conversation.

    Args:
        spending: Where it is counted.
        tool: The tool that is called, in the form in which an engine has it.
        engine: Which one; None: only a conversation has the tool.
        others: The settings that bound it beside the conversation's own.
    """

    __slots__ = ("_identity", "_name", "_others", "_tool", "spending")

    def __init__(
        self,
        spending: Spending,
        tool: Tool,
        engine: Source | None,
        others: tuple[ToolCallConfig, ...],
    ) -> None:
        self.spending = spending
        self._tool = tool
        self._name, self._identity = spending.names_of(tool, engine)
        self._others = others

    def refusal(self) -> Refusal | None:
        """Return why one more call may not run; None: it may."""
        spending, most = self.spending, self._tool.max_uses
        for config in (spending.config, *self._others):
            refusal = spending.refusal(self._name, self._identity, most, config, is_asked_for=False)
            if refusal is not None:
                return refusal
        return None

    def count(self) -> None:
        """Count the call, which the model did not ask for."""
        self.spending.count_call(self._name, self._identity, is_asked_for=False)

    def give_back(self) -> None:
        """Take the count back: the call has not run."""
        self.spending.uncount_call(self._name, self._identity, is_asked_for=False)


def _refuse_more(reason: str, most: int, unit: str, where: str) -> Refusal:
    used = f"the only {unit} {where} is" if most == 1 else f"the {most} {unit}s {where} are"
    return limit_refusal(reason, f"{used} used up")


def _is_reached(most: int | None, spent: int) -> bool:
    return most is not None and spent >= most


def limit_refusal(reason: str, message: str) -> Refusal:
    """Return the refusal of a call or round at its bound."""
    text = f"{message}: answer with what is known, without this call"
    return Refusal(ErrorType.LIMIT_REACHED.value, text, {"reason": reason})
