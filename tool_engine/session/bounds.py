"""What has a conversation spent, and may it go on? A8, U47.

Everything is decided at once, without waiting: a call that may run has been counted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Annotated, Any, Final, TypeAlias

import msgspec
from msgspec.structs import replace

from tool_engine.calls.uses import Counting
from tool_engine.interfaces.source import Source
from tool_engine.logger import current_call
from tool_engine.model.call import Refusal
from tool_engine.model.checks.field_types import convert_value
from tool_engine.model.json.data import Data
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
_ALSO: Final[ContextVar[Others]] = ContextVar("also_bounds", default={})  # noqa: B039 - it is never changed
"""The further settings that bound the calls of a reply, by conversation."""
_INPUT: Final = (
    ("prompt_tokens",),
    ("promptTokenCount", "toolUsePromptTokenCount"),
    ("prompt_token_count", "tool_use_prompt_token_count"),
    ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"),
)
"""Names for the tokens that a model read. Anthropic counts cached tokens apart; the others
include them. Servers in between report the same under several names: the first one counts.
"""
_OUTPUT: Final = (
    ("completion_tokens",),
    ("candidatesTokenCount", "thoughtsTokenCount"),
    ("candidates_token_count", "thoughts_token_count"),
    ("output_tokens",),
)
"""Names for the tokens that a model wrote. Gemini counts its thoughts apart; the others include
them.
"""
_TOTAL: Final = (("total_tokens",), ("totalTokenCount",), ("total_token_count",))


class Usage(msgspec.Struct, Data, frozen=True, kw_only=True):
    """What a conversation has spent so far, including its sub-agents."""

    turns: int = 0
    rounds: int = 0
    """Requests to its model in the running turn, or else in the last one."""
    calls: int = 0
    """Calls of the whole conversation that were allowed to run."""
    calls_of_turn: int = 0
    input_tokens: int = 0
    """Tokens that its models read, as the provider counts them."""
    output_tokens: int = 0
    """Tokens that its models wrote, including their thoughts."""
    total_tokens: int = 0
    seconds: float = 0.0
    """Seconds of the running turn so far, or of the last one."""
    by_tool: dict[str, int] = {}
    """The number of calls of each tool, by name."""


class _Kept(msgspec.Struct, forbid_unknown_fields=True):
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


Others: TypeAlias = Mapping["Meter", tuple[ToolCallConfig, ...]]
"""Further settings that bound the current calls, by conversation."""
find_reply_bounds: Final = _ALSO.get
"""Returns the further settings that bound the calls made here."""


class Meter:
    """Count what a conversation spends and report when a bound is reached.

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
        catalog: Callable[[], Source] | None = None,
    ) -> None:
        self.config = config
        self._clock, self._identity, self._stamp, self._catalog = clock, identity, stamp, catalog
        self.line: tuple[Meter, ...] = (self, *(() if parent is None else parent.line))
        """Itself, then those of the conversations above it."""
        self._most: tuple[object, object, dict[str, int]] = (None, None, {})
        """The most calls by tool, and the settings and the stamp that they were found from."""
        self._uses: dict[str, int] = {}
        """Calls of each tool by its identity, whatever name was called."""
        self._names: dict[tuple[int, int], tuple[Tool, Source, str, str]] = {}
        """Tools by the ids of them and their engines, which are held: see `names_of`."""
        self._kept = _Kept()
        self._rounds = 0
        self._calls_of_turn = 0
        self._began: float | None = None
        self._seconds = 0.0
        self._stopped: Refusal | None = None
        """Why no further call of the turn may run, even within the bounds."""

    def __repr__(self) -> str:
        kept, config = self._kept, self.config
        return (
            f"Meter(turn {kept.turns}: {self._rounds} of {config.max_iterations} rounds, "
            f"{self._calls_of_turn} of {config.max_calls_per_turn} calls; "
            f"{kept.total_tokens} tokens)"
        )

    # Its turns.

    @property
    def is_in_turn(self) -> bool:
        return self._began is not None

    def begin_turn(self) -> None:
        """Begin a turn: its bounds start anew and hold until `end_turn`."""
        self._kept.turns += 1
        self._rounds = self._calls_of_turn = 0
        self._stopped = None
        self._began = self._clock()

    def end_turn(self) -> None:
        """End the turn: only the bounds of the whole conversation hold now."""
        self._seconds, self._began = self.seconds, None
        self._stopped = None

    def stop_calls(self, reason: str, message: str) -> None:
        """Refuse every further call of this turn, with this reason and message."""
        self._stopped = _limit_refusal(reason, message)

    def begin_round(self) -> Refusal | None:
        """Count one request to the model, or return a refusal."""
        reason = self.reached()
        if reason is not None:
            return _limit_refusal(reason, "the turn has come to its bound")
        self.count_round()
        return None

    def count_round(self) -> None:
        """Count the final request to the model, which no bound refuses."""
        self._rounds += 1

    @property
    def seconds(self) -> float:
        """Seconds of the running turn so far, or of the last one."""
        return self._seconds if self._began is None else self._clock() - self._began

    def seconds_left(self) -> float | None:
        """Return the turn's seconds left, at least 0; None: no bound."""
        left = [each.own_seconds_left() for each in self.spenders()]
        return min((each for each in left if each is not None), default=None)

    def own_seconds_left(self) -> float | None:
        """Return the same by the conversation's own bound alone."""
        most = self.config.max_seconds
        return None if most is None or self._began is None else max(0.0, most - self.seconds)

    def reached(self) -> str | None:
        """Return which bound ends this turn, or None if none is reached.

        `max_seconds_reached`, `max_tokens_reached`, `max_calls_reached` or `max_rounds_reached`;
        of several the first in this order.
        """
        if self.seconds_left() == 0:
            return SECONDS
        spenders = self.spenders()
        if any(each.has_spent_tokens for each in spenders):
            return TOKENS
        if any(each.has_spent_calls for each in spenders):
            return CALLS
        return ROUNDS if self._rounds >= self.config.max_iterations else None

    @property
    def has_spent_tokens(self) -> bool:
        """Return True if the bound of tokens is used up."""
        return _is_reached(self.config.max_tokens, self._kept.total_tokens)

    @property
    def has_spent_calls(self) -> bool:
        """Return True if a bound of calls is used up."""
        is_turn_over = self.is_in_turn and self._calls_of_turn >= self.config.max_calls_per_turn
        return is_turn_over or _is_reached(self.config.max_calls, self._kept.calls)

    # Its calls.

    def spenders(self) -> tuple[Meter, ...]:
        """Return the line and the conversations whose tools make these calls."""
        call = current_call.get()
        if call is None:
            return self.line
        around = getattr(call.context.scope, "line", ())
        return (*self.line, *(each for each in around if each not in self.line))

    def take(
        self,
        tool_name: str,
        max_uses: int | None = None,
        *,
        is_asked_for: bool = True,
        identity: str | None = None,
        spenders: tuple[Meter, ...] | None = None,
    ) -> Refusal | None:
        """Count one call, or return why it may not run.

        Args:
            tool_name: The tool.
            max_uses: What its definition says; the conversation's own setting goes before.
            is_asked_for: Whether the conversation makes it; of a turn no other call counts.
            identity: What says which tool it is; None: it is found.
            spenders: Where it is counted; None: `self.spenders()`.
        """
        others = _ALSO.get()
        if not others and spenders is self.line and len(spenders) == 1 and identity is not None:
            # No other conversation or reply has a say, as almost always.
            with Counting.lock:
                refusal = self.find_refusal(
                    tool_name, identity, max_uses, self.config, is_asked_for=is_asked_for
                )
                if refusal is None:
                    self.count_call(tool_name, identity, is_asked_for=is_asked_for)
            return refusal
        counts = self._find_counts(tool_name, identity, spenders)
        with Counting.lock:
            for each, (name, tool) in counts:
                for config in (each.config, *others.get(each, ())):
                    refusal = each.find_refusal(
                        name, tool, max_uses, config, is_asked_for=is_asked_for
                    )
                    if refusal is not None:
                        return refusal
            for each, (name, tool) in counts:
                each.count_call(name, tool, is_asked_for=is_asked_for)
        return None

    def take_plainly(self, tool_name: str, identity: str) -> bool:
        """Count one call that nothing bounds; False: something may, and it was not counted."""
        config, line = self.config, self.line
        if (
            len(line) > 1
            or self._began is not None
            or self._stopped is not None
            or config.max_uses
            or config.max_calls is not None
            or config.max_tokens is not None
            or config.max_seconds is not None
            or current_call.get() is not None
            or _ALSO.get()
        ):
            return False
        with Counting.lock:
            # The same as `count_call`, written out.
            uses, kept = self._uses, self._kept
            uses[identity] = uses.get(identity, 0) + 1
            kept.calls += 1
            self._calls_of_turn += 1
            by_tool = kept.by_tool
            by_tool[tool_name] = by_tool.get(tool_name, 0) + 1
        return True

    def give_back(
        self,
        tool_name: str,
        spenders: tuple[Meter, ...] | None = None,
        *,
        is_asked_for: bool = True,
    ) -> None:
        """Take back the count of a call that did not run.

        Args:
            tool_name: The tool.
            spenders: Where it was counted; None: where `take` counts now.
            is_asked_for: As it was for `take`.
        """
        for each, (name, tool) in self._find_counts(tool_name, None, spenders):
            each.uncount_call(name, tool, is_asked_for=is_asked_for)

    def _find_counts(
        self, tool_name: str, identity: str | None, spenders: tuple[Meter, ...] | None
    ) -> list[tuple[Meter, tuple[str, str]]]:
        """Return where a call is counted, each with its name and its tool's identity there."""
        spenders = self.spenders() if spenders is None else spenders
        known = tool_name, self._tool_of(tool_name) if identity is None else identity
        return [
            (each, known if each in self.line else self._names_for(tool_name, each))
            for each in spenders
        ]

    def find_refusal(  # noqa: PLR0911 - one for each bound
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
        if is_asked_for and self._stopped is not None:
            return self._stopped
        if self.config.max_seconds is not None and self.own_seconds_left() == 0:
            return _limit_refusal(SECONDS, "the time of the turn is up")
        if is_asked_for:
            most = config.max_tokens
            if most is not None and self._kept.total_tokens >= most:
                return _refuse_more(TOKENS, most, "token", "of the conversation")
            most = config.max_calls_per_turn
            if self._began is not None and self._calls_of_turn >= most:
                return _refuse_more(CALLS, most, "call", "of one turn")
        most = config.max_calls
        if most is not None and self._kept.calls >= most:
            return _refuse_more(CALLS, most, "call", "of the conversation")
        most = self._find_most_uses(tool, max_uses, config) if config.max_uses else max_uses
        if most is not None and self._uses.get(tool, 0) >= most:
            where = f"of {tool_name!r} in one conversation"
            return _refuse_more("max_uses_reached", most, "call", where)
        return None

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
        found = [self._tool_of(name)]
        if self._catalog is not None and (catalog := self._catalog()).get(name) is None:
            engines = [each for each in catalog.list_origins() if each.get(name) is not None]
            found += [identity_in(catalog, each, name) for each in engines]
        return found

    def count_call(self, tool_name: str, tool: str, *, is_asked_for: bool = True) -> None:
        """Count a call, for the turn only if the conversation asked."""
        self._uses[tool] = self._uses.get(tool, 0) + 1
        self._kept.calls += 1
        self._calls_of_turn += is_asked_for
        self._kept.by_tool[tool_name] = self._kept.by_tool.get(tool_name, 0) + 1

    def uncount_call(self, tool_name: str, tool: str, *, is_asked_for: bool = True) -> None:
        """Take back a counted call; a new turn may have begun since."""
        for counts, name in ((self._uses, tool), (self._kept.by_tool, tool_name)):
            left = counts.pop(name, 0) - 1
            if left > 0:
                counts[name] = left
        self._kept.calls = max(0, self._kept.calls - 1)
        self._calls_of_turn = max(0, self._calls_of_turn - is_asked_for)

    @contextmanager
    def also(self, config: ToolCallConfig) -> Iterator[None]:
        """Bound the calls made meanwhile by other settings as well.

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
        known = _ALSO.get()
        token = _ALSO.set({**known, self: (*known.get(self, ()), bounds)})
        try:
            yield
        finally:
            _ALSO.reset(token)

    def add_tokens(self, usage: Mapping[str, Any] | None) -> None:
        """Add the tokens of one reply, under its provider's own names."""
        if not isinstance(usage, Mapping):
            return
        read, wrote, total = read_tokens(usage)
        for each in self.spenders():
            each.count_tokens(read, wrote, total)

    def count_tokens(self, read: int, wrote: int, total: int) -> None:
        """Count tokens in this conversation alone."""
        self._kept.input_tokens += read
        self._kept.output_tokens += wrote
        self._kept.total_tokens += total

    # Which tool a name means, here and in another conversation.

    def _tool_of(self, tool_name: str) -> str:
        """Return the identity of the tool of this name."""
        return tool_name if self._identity is None else self._identity(tool_name)

    def names_of(self, tool: Tool, engine: Source | None) -> tuple[str, str]:
        """Return the conversation's name for an engine's tool, and its identity.

        Args:
            tool: In the form in which the engine has it.
            engine: Which one; None: only a conversation has the tool.
        """
        if engine is None:
            return tool.name, identity_of_own(tool.name)
        if self._catalog is None:
            return tool.name, tool.name
        # To look through a view of thousands of tools costs more than the call.
        known = self._names.get((id(tool), id(engine)))
        if known is None:
            if len(self._names) >= _REMEMBERED:
                self._names.clear()
            catalog = self._catalog()
            leaf = leaf_of(catalog, engine, tool.name) or engine
            shown = catalog.find_shown_names(tool, leaf)
            name = shown[0] if shown else tool.name
            known = tool, engine, name, identity_in(catalog, leaf, tool.name)
            self._names[id(tool), id(engine)] = known
        return known[2:]

    def _names_for(self, tool_name: str, other: Meter) -> tuple[str, str]:
        """Return the same in the conversation `other`, for a name here."""
        identity = self._tool_of(tool_name)
        if self._catalog is None or other._catalog is None:
            return tool_name, identity
        catalog = self._catalog()
        if identity != identity_of(catalog, tool_name):
            # Only this conversation has it.
            return tool_name, identity
        engine, name = catalog.find_origin(tool_name)
        tool = engine.get(name)
        if tool is None:
            return tool_name, identity_in(other._catalog(), engine, name)
        return other.names_of(tool, engine)

    # What it has spent.

    def usage(self) -> Usage:
        kept = self._kept
        return Usage(
            turns=kept.turns,
            rounds=self._rounds,
            calls=kept.calls,
            calls_of_turn=self._calls_of_turn,
            input_tokens=kept.input_tokens,
            output_tokens=kept.output_tokens,
            total_tokens=kept.total_tokens,
            seconds=self.seconds,
            by_tool=dict(kept.by_tool),
        )

    def to_dict(self) -> dict[str, Any]:
        turn = {
            "rounds": self._rounds,
            "calls_of_turn": self._calls_of_turn,
            "seconds": self.seconds,
        }
        return {**msgspec.to_builtins(self._kept), "uses": dict(self._uses), **turn}

    def restore(self, data: Mapping[str, Any]) -> None:
        """Restore what `to_dict` wrote, perhaps in another process.

        Raises:
            msgspec.ValidationError: It is something else; nothing has changed then.
        """
        kept = convert_value(data, _Kept)
        self._uses = dict(kept.by_tool if kept.uses is None else kept.uses)
        self._kept = replace(kept, uses=None)
        self._rounds, self._calls_of_turn = kept.rounds, kept.calls_of_turn
        self._seconds, self._began = kept.seconds, None


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
        spending: Meter,
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
        meter, most = self.spending, self._tool.max_uses
        for config in (meter.config, *self._others):
            refusal = meter.find_refusal(
                self._name, self._identity, most, config, is_asked_for=False
            )
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
    return _limit_refusal(reason, f"{used} used up")


def _is_reached(most: int | None, spent: int) -> bool:
    return most is not None and spent >= most


def _limit_refusal(reason: str, message: str) -> Refusal:
    """Return the refusal of a call or round at its bound."""
    text = f"{message}: answer with what is known, without this call"
    return Refusal(ErrorType.LIMIT_REACHED.value, text, {"reason": reason})


def read_tokens(usage: Mapping[str, Any]) -> tuple[int, int, int]:
    """Return the tokens read and written, and the provider's total, if given."""
    read, wrote = _sum_counts(usage, _INPUT), _sum_counts(usage, _OUTPUT)
    return read, wrote, max(read + wrote, _sum_counts(usage, _TOTAL))


def _sum_counts(usage: Mapping[str, Any], ways: tuple[tuple[str, ...], ...]) -> int:
    for names in ways:
        counted = 0
        for name in names:
            found = usage.get(name)
            if type(found) is int and found > 0:
                counted += found
        if counted:
            return counted
    return 0
