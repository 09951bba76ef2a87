"""How much has a conversation spent, and may it go on? A8, U47.

Everything is decided at once, without waiting: a call that may run has been counted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Annotated, Any, Final

import msgspec
from msgspec.structs import replace

from tool_engine.logger import current_call
from tool_engine.model.call import Refusal
from tool_engine.model.json.data import Data
from tool_engine.model.outcome import ErrorType
from tool_engine.protocols.sources import ToolSource
from tool_engine.session.config import ToolCallConfig
from tool_engine.session.sources.identity import identity_in, identity_of, origin_of
from tool_engine.session.tokens import tokens_of

__all__ = ["Meter", "Spending", "Usage"]

_Count = Annotated[int, msgspec.Meta(ge=0)]
_ROUNDS: Final = "max_rounds_reached"
_CALLS: Final = "max_calls_reached"
_TOKENS: Final = "max_tokens_reached"
_SECONDS: Final = "max_seconds_reached"

_ALSO: Final[ContextVar[Mapping[Meter, ToolCallConfig]]] = ContextVar("also_bounds", default={})  # noqa: B039 - nobody changes it
"""Of a conversation: what else bounds the calls of one reply."""


class Usage(msgspec.Struct, Data, frozen=True, kw_only=True):
    """What a conversation has spent so far, its sub-agents' share included."""

    turns: int = 0
    rounds: int = 0
    """Requests to its model in the running, or the last, turn."""
    calls: int = 0
    """Calls of the whole conversation that were let run."""
    calls_of_turn: int = 0
    input_tokens: int = 0
    """What its models read, as they count it."""
    output_tokens: int = 0
    """What its models wrote, their thoughts included."""
    total_tokens: int = 0
    seconds: float = 0.0
    """Of the running turn so far, or of the last one."""
    by_tool: dict[str, int] = {}
    """Calls by tool."""


class _Kept(msgspec.Struct, forbid_unknown_fields=True):
    """What outlives a process. No turn does: what it came to is told, and bounds nothing."""

    turns: _Count = 0
    calls: _Count = 0
    input_tokens: _Count = 0
    output_tokens: _Count = 0
    total_tokens: _Count = 0
    by_tool: dict[str, _Count] = {}
    uses: dict[str, _Count] | None = None
    """Calls by what says which tool it is; None: kept when names alone said that."""
    rounds: _Count = 0
    calls_of_turn: _Count = 0
    seconds: Annotated[float, msgspec.Meta(ge=0)] = 0.0


class Spending:
    """What one conversation has spent, against its own bounds only; part of a `Meter`."""

    def __init__(
        self,
        config: ToolCallConfig,
        clock: Callable[[], float],
        identity: Callable[[str], str] | None,
        stamp: Callable[[], object] = lambda: None,
        catalog: Callable[[], ToolSource] | None = None,
    ) -> None:
        self.config = config
        self.identity = identity
        self.catalog = catalog
        self._stamp = stamp
        self._most: tuple[object, object, dict[str, int]] = (None, None, {})
        """The most calls by tool, and the settings and the stamp that they were found from."""
        self.uses: dict[str, int] = {}
        """Calls of each tool, by what says which tool it is, whatever it was called."""
        self.kept = _Kept()
        self.rounds = 0
        self.calls_of_turn = 0
        self._clock = clock
        self._began: float | None = None
        self._seconds = 0.0
        self.stopped: Refusal | None = None
        """Why no further call of the turn may run, however much is left."""

    def begin_turn(self) -> None:
        """The bounds of one turn begin anew."""
        self.kept.turns += 1
        self.rounds = self.calls_of_turn = 0
        self.stopped = None
        self._began = self._clock()

    def end_turn(self) -> None:
        """What is called from here on belongs to no turn."""
        self._seconds, self._began = self.seconds, None
        self.stopped = None

    def tool_of(self, tool_name: str) -> str:
        """What says which tool has a name."""
        return tool_name if self.identity is None else self.identity(tool_name)

    def tool_for(self, tool_name: str, other: Spending) -> str:
        """What says in the conversation `other` which tool has a name here."""
        tool = self.tool_of(tool_name)
        if self.catalog is None or other.catalog is None:
            return tool
        catalog = self.catalog()
        if tool != identity_of(catalog, tool_name):
            # Only this conversation has it.
            return tool
        return identity_in(other.catalog(), *origin_of(catalog, tool_name))

    def tell_turn(self, rounds: int, calls: int, seconds: float) -> None:
        """What the last turn came to, in another process perhaps."""
        self.rounds, self.calls_of_turn, self._seconds, self._began = rounds, calls, seconds, None

    def count_call(self, tool_name: str, tool: str) -> None:
        """Counts a call that may run."""
        self.uses[tool] = self.uses.get(tool, 0) + 1
        self.kept.calls += 1
        self.calls_of_turn += 1
        self.kept.by_tool[tool_name] = self.kept.by_tool.get(tool_name, 0) + 1

    def uncount_call(self, tool_name: str, tool: str) -> None:
        """Takes back what `count_call` counted; a turn may have begun since."""
        for counts, name in ((self.uses, tool), (self.kept.by_tool, tool_name)):
            left = counts.pop(name, 0) - 1
            if left > 0:
                counts[name] = left
        self.kept.calls = max(0, self.kept.calls - 1)
        self.calls_of_turn = max(0, self.calls_of_turn - 1)

    def count_tokens(self, read: int, wrote: int, total: int) -> None:
        """Adds what one reply cost."""
        self.kept.input_tokens += read
        self.kept.output_tokens += wrote
        self.kept.total_tokens += total

    @property
    def is_in_turn(self) -> bool:
        """Whether the bounds of one turn hold."""
        return self._began is not None

    @property
    def seconds(self) -> float:
        """Of the running turn so far, or of the last one."""
        return self._seconds if self._began is None else self._clock() - self._began

    @property
    def seconds_left(self) -> float | None:
        """Until the turn must have ended, at least 0."""
        most = self.config.max_seconds
        return None if most is None or self._began is None else max(0.0, most - self.seconds)

    @property
    def has_spent_tokens(self) -> bool:
        """Whether its tokens are used up."""
        return self._spent_tokens(self.config)

    @property
    def spent_calls(self) -> str | None:
        """Which calls are used up, if they are."""
        return self._spent_calls(self.config)

    def _spent_tokens(self, config: ToolCallConfig) -> bool:
        return config.max_tokens is not None and self.kept.total_tokens >= config.max_tokens

    def _spent_calls(self, config: ToolCallConfig) -> str | None:
        most, whole = config.max_calls_per_turn, config.max_calls
        if self._began is not None and self.calls_of_turn >= most:
            return _used_up(most, "call", "of one turn")
        if whole is not None and self.kept.calls >= whole:
            return _used_up(whole, "call", "of the conversation")
        return None

    def _most_uses(self, tool: str, max_uses: int | None, config: ToolCallConfig) -> int | None:
        """The most calls of a tool, by all that is said of it under any of its names."""
        if not config.max_uses:
            return max_uses
        uses, stamp, most = self._most
        if uses is not config.max_uses or stamp is not self._stamp():
            # Of several names of one tool the least comes last, and stays.
            said = sorted(config.max_uses.items(), key=lambda each: -each[1])
            most = {self.tool_of(name): each for name, each in said}
            self._most = config.max_uses, self._stamp(), most
        return most.get(tool, max_uses)

    def refusal(
        self, tool_name: str, tool: str, max_uses: int | None, config: ToolCallConfig | None = None
    ) -> Refusal | None:
        """Why one more call may not run, by its own bounds or by those of other settings."""
        config = self.config if config is None else config
        if self.stopped is not None:
            return self.stopped
        if self.seconds_left == 0:
            return _refusal(_SECONDS, "the time of the turn is up")
        if self._spent_tokens(config):
            message = _used_up(config.max_tokens, "token", "of the conversation")
            return _refusal(_TOKENS, message)
        spent = self._spent_calls(config)
        if spent is not None:
            return _refusal(_CALLS, spent)
        most = self._most_uses(tool, max_uses, config)
        if most is not None and self.uses.get(tool, 0) >= most:
            message = _used_up(most, "call", f"of {tool_name!r} in one conversation")
            return _refusal("max_uses_reached", message)
        return None


class Meter:
    """Counts what a conversation spends, and says when that is enough.

    Args:
        config: The bounds. A session that changes them sets `config`.
        parent: Of the conversation that this one works for: its calls, tokens and seconds are
            spent, too, and its bounds hold as well. Rounds are each one's own.
        clock: Seconds that only grow.
        identity: Name of a tool -> what says which tool it is: one that is shown under two names is
            counted as one. None: its name.
        stamp: Gives the same object for as long as all names say the same tools.
        catalog: What has the tools, which other conversations may know under other names.
    """

    def __init__(
        self,
        config: ToolCallConfig,
        parent: Meter | None = None,
        clock: Callable[[], float] = time.monotonic,
        identity: Callable[[str], str] | None = None,
        stamp: Callable[[], object] = lambda: None,
        catalog: Callable[[], ToolSource] | None = None,
    ) -> None:
        self._own = Spending(config, clock, identity, stamp, catalog)
        self._others = 0
        """How many replies are bounded by other settings, too."""
        self.line: tuple[Spending, ...] = (self._own, *(() if parent is None else parent.line))
        """Its own spending, then that of the conversations that it works for."""

    def _spenders(self) -> tuple[Spending, ...]:
        """The line, and those of the conversations whose tool makes this one's calls."""
        if (call := current_call.get()) is None:
            return self.line
        around = getattr(call.context.scope, "line", ())
        return (*self.line, *(each for each in around if each not in self.line))

    def _tools(self, tool_name: str, tool: str, spenders: tuple[Spending, ...]) -> list[str]:
        """What says which tool is called, in the conversation of each of `spenders`."""
        if spenders is self.line:
            return [tool] * len(spenders)
        own = self._own
        return [tool if each in self.line else own.tool_for(tool_name, each) for each in spenders]

    def __repr__(self) -> str:
        own = self._own
        return (
            f"Meter(turn {own.kept.turns}: {own.rounds} of {own.config.max_iterations} rounds, "
            f"{own.calls_of_turn} of {own.config.max_calls_per_turn} calls; "
            f"{own.kept.total_tokens} tokens)"
        )

    @property
    def config(self) -> ToolCallConfig:
        """The bounds; may be set."""
        return self._own.config

    @config.setter
    def config(self, config: ToolCallConfig) -> None:
        self._own.config = config

    @property
    def is_in_turn(self) -> bool:
        """Whether a turn has begun that has not ended."""
        return self._own.is_in_turn

    def begin_turn(self) -> None:
        """A user's message: the bounds of one turn begin anew, and hold until `end_turn`."""
        self._own.begin_turn()

    def end_turn(self) -> None:
        """The model has answered: only the bounds of the whole conversation hold."""
        self._own.end_turn()

    def stop_calls(self, reason: str, message: str) -> None:
        """No further call of this turn may run; each is told the reason and the message."""
        self._own.stopped = _refusal(reason, message)

    def begin_round(self) -> Refusal | None:
        """Counts one request to the model that may lead to calls; None: it may be made."""
        reason = self.reached()
        if reason is not None:
            return _refusal(reason, "the turn has come to its bound")
        self.count_round()
        return None

    def count_round(self) -> None:
        """Counts one request to the model that no bound holds up: its last chance to answer."""
        self._own.rounds += 1

    def take(self, tool_name: str, max_uses: int | None = None) -> Refusal | None:
        """Counts one call; None: it may run. One that may not is not counted anywhere.

        Args:
            tool_name: The tool.
            max_uses: What its definition says; the conversation's own setting goes before.
        """
        tool = self._own.tool_of(tool_name)
        spenders = self._spenders()
        tools = self._tools(tool_name, tool, spenders)
        for each, known in zip(spenders, tools, strict=True):
            refusal = each.refusal(tool_name, known, max_uses)
            if refusal is not None:
                return refusal
        if self._others:
            also = _ALSO.get().get(self, self.config)
            refusal = self._own.refusal(tool_name, tool, max_uses, also)
            if refusal is not None:
                return refusal
        for each, known in zip(spenders, tools, strict=True):
            each.count_call(tool_name, known)
        return None

    def give_back(self, tool_name: str) -> None:
        """A call that was counted has not run: it counts no more."""
        tool = self._own.tool_of(tool_name)
        spenders = self._spenders()
        tools = self._tools(tool_name, tool, spenders)
        for each, known in zip(spenders, tools, strict=True):
            each.uncount_call(tool_name, known)

    @contextmanager
    def also(self, config: ToolCallConfig) -> Iterator[None]:
        """What is called meanwhile is held to the bounds of other settings, too.

        They are those of the turn and of the whole conversation, of which all its calls and tokens
        count: `max_calls_per_turn`, `max_calls`, `max_uses` and `max_tokens`.

        Args:
            config: The other settings.
        """
        bounds = replace(
            self.config,
            max_calls_per_turn=config.max_calls_per_turn,
            max_calls=config.max_calls,
            max_uses=config.max_uses,
            max_tokens=config.max_tokens,
        )
        token = _ALSO.set({**_ALSO.get(), self: bounds})
        self._others += 1
        try:
            yield
        finally:
            self._others -= 1
            _ALSO.reset(token)

    def add_tokens(self, usage: Mapping[str, Any] | None) -> None:
        """Adds what one reply cost, under the names that its provider has for it."""
        if not isinstance(usage, Mapping):
            return
        read, wrote, total = tokens_of(usage)
        for each in self._spenders():
            each.count_tokens(read, wrote, total)

    def reached(self) -> str | None:
        """Why the model may call no more in this turn; None: it may.

        `max_seconds_reached`, `max_tokens_reached`, `max_calls_reached` or `max_rounds_reached`;
        of several the first in this order.
        """
        if self.seconds_left() == 0:
            return _SECONDS
        spenders = self._spenders()
        if any(each.has_spent_tokens for each in spenders):
            return _TOKENS
        if any(each.spent_calls for each in spenders):
            return _CALLS
        return _ROUNDS if self._own.rounds >= self.config.max_iterations else None

    def seconds_left(self) -> float | None:
        """Seconds until the turn must have ended, at least 0; None: nothing says when."""
        spenders = self._spenders()
        left = [each.seconds_left for each in spenders if each.seconds_left is not None]
        return min(left, default=None)

    def usage(self) -> Usage:
        """What was spent so far: a copy."""
        own, kept = self._own, self._own.kept
        return Usage(
            turns=kept.turns,
            rounds=own.rounds,
            calls=kept.calls,
            calls_of_turn=own.calls_of_turn,
            input_tokens=kept.input_tokens,
            output_tokens=kept.output_tokens,
            total_tokens=kept.total_tokens,
            seconds=own.seconds,
            by_tool=dict(kept.by_tool),
        )

    def to_dict(self) -> dict[str, Any]:
        """What was spent, as JSON values."""
        own = self._own
        turn = {name: getattr(own, name) for name in ("rounds", "calls_of_turn", "seconds")}
        return {**msgspec.to_builtins(own.kept), "uses": dict(own.uses), **turn}

    def restore(self, data: Mapping[str, Any]) -> None:
        """Goes on from what `to_dict` wrote.

        Raises:
            msgspec.ValidationError: It is something else; nothing has changed then.
        """
        kept = msgspec.convert(data, _Kept)
        self._own.uses = dict(kept.by_tool if kept.uses is None else kept.uses)
        self._own.kept = replace(kept, uses=None)
        self._own.tell_turn(kept.rounds, kept.calls_of_turn, kept.seconds)


def _used_up(most: int | None, unit: str, where: str) -> str:
    if most == 1:
        return f"the only {unit} {where} is used up"
    return f"the {most} {unit}s {where} are used up"


def _refusal(reason: str, message: str) -> Refusal:
    told = f"{message}: answer with what is known, without this call"
    return Refusal(ErrorType.LIMIT_REACHED.value, told, {"reason": reason})
