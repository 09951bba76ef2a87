"""How much has a conversation spent, and may it go on? A8, U47.

Everything is decided at once, without waiting: a call that may run has been counted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, TypeAlias

import msgspec
from msgspec.structs import replace

from tool_engine.calls.uses import Counting
from tool_engine.interfaces.source import Source
from tool_engine.logger import current_call
from tool_engine.model.call import Refusal
from tool_engine.model.checks.field_types import convert_value
from tool_engine.model.json.data import Data
from tool_engine.session.config import ToolCallConfig
from tool_engine.session.spending import (
    CALLS,
    ROUNDS,
    SECONDS,
    TOKENS,
    Kept,
    Spending,
    limit_refusal,
)

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


Others: TypeAlias = Mapping[Spending, tuple[ToolCallConfig, ...]]
"""Further settings that bound the current calls, by what a conversation has spent."""


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
        self._own = Spending(config, clock, identity, stamp, catalog)
        self.line: tuple[Spending, ...] = (self._own, *(() if parent is None else parent.line))
        """Its own spending, then that of the conversations above it."""

    def spenders(self) -> tuple[Spending, ...]:
        """Return the line and the conversations whose tools make these calls."""
        call = current_call.get()
        if call is None:
            return self.line
        around = getattr(call.context.scope, "line", ())
        return (*self.line, *(each for each in around if each not in self.line))

    def _find_counts(
        self, tool_name: str, identity: str | None, spenders: tuple[Spending, ...] | None
    ) -> list[tuple[Spending, tuple[str, str]]]:
        """Return where a call is counted, each with its name and its tool's identity there."""
        own, spenders = self._own, self.spenders() if spenders is None else spenders
        known = tool_name, own.tool_of(tool_name) if identity is None else identity
        return [
            (each, known if each in self.line else own.names_for(tool_name, each))
            for each in spenders
        ]

    def __repr__(self) -> str:
        own = self._own
        return (
            f"Meter(turn {own.kept.turns}: {own.rounds} of {own.config.max_iterations} rounds, "
            f"{own.calls_of_turn} of {own.config.max_calls_per_turn} calls; "
            f"{own.kept.total_tokens} tokens)"
        )

    @property
    def config(self) -> ToolCallConfig:
        return self._own.config

    @config.setter
    def config(self, config: ToolCallConfig) -> None:
        self._own.config = config

    @property
    def is_in_turn(self) -> bool:
        return self._own.is_in_turn

    def begin_turn(self) -> None:
        """Begin a turn: its bounds start anew and hold until `end_turn`."""
        self._own.begin_turn()

    def end_turn(self) -> None:
        """End the turn: only the bounds of the whole conversation hold now."""
        self._own.end_turn()

    def stop_calls(self, reason: str, message: str) -> None:
        """Refuse every further call of this turn, with this reason and message."""
        self._own.stopped = limit_refusal(reason, message)

    def begin_round(self) -> Refusal | None:
        """Count one request to the model, or return a refusal."""
        reason = self.reached()
        if reason is not None:
            return limit_refusal(reason, "the turn has come to its bound")
        self.count_round()
        return None

    def count_round(self) -> None:
        """Count the final request to the model, which no bound refuses."""
        self._own.rounds += 1

    def take(
        self,
        tool_name: str,
        max_uses: int | None = None,
        *,
        is_asked_for: bool = True,
        identity: str | None = None,
        spenders: tuple[Spending, ...] | None = None,
    ) -> Refusal | None:
        """Count one call, or return why it may not run.

        Args:
            tool_name: The tool.
            max_uses: What its definition says; the conversation's own setting goes before.
            is_asked_for: Whether the conversation makes it; of a turn no other call counts.
            identity: What says which tool it is; None: it is found.
            spenders: Where it is counted; None: `self.spenders()`.
        """
        others, own = _ALSO.get(), self._own
        if not others and spenders is self.line and len(spenders) == 1 and identity is not None:
            # No other conversation or reply has a say, as almost always.
            with Counting.lock:
                refusal = own.refusal(
                    tool_name, identity, max_uses, own.config, is_asked_for=is_asked_for
                )
                if refusal is None:
                    own.count_call(tool_name, identity, is_asked_for=is_asked_for)
            return refusal
        counts = self._find_counts(tool_name, identity, spenders)
        with Counting.lock:
            for each, (name, tool) in counts:
                for config in (each.config, *others.get(each, ())):
                    refusal = each.refusal(name, tool, max_uses, config, is_asked_for=is_asked_for)
                    if refusal is not None:
                        return refusal
            for each, (name, tool) in counts:
                each.count_call(name, tool, is_asked_for=is_asked_for)
        return None

    def give_back(
        self,
        tool_name: str,
        spenders: tuple[Spending, ...] | None = None,
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
        token = _ALSO.set({**known, self._own: (*known.get(self._own, ()), bounds)})
        try:
            yield
        finally:
            _ALSO.reset(token)

    def add_tokens(self, usage: Mapping[str, Any] | None) -> None:
        """Add the tokens of one reply, under its provider's own names."""
        if not isinstance(usage, Mapping):
            return
        read, wrote, total = _read_tokens(usage)
        for each in self.spenders():
            each.count_tokens(read, wrote, total)

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
        return ROUNDS if self._own.rounds >= self.config.max_iterations else None

    def seconds_left(self) -> float | None:
        """Return the turn's seconds left, at least 0; None: no bound."""
        spenders = self.spenders()
        left = [each.seconds_left for each in spenders if each.seconds_left is not None]
        return min(left, default=None)

    def usage(self) -> Usage:
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
        own = self._own
        turn = {name: getattr(own, name) for name in ("rounds", "calls_of_turn", "seconds")}
        return {**msgspec.to_builtins(own.kept), "uses": dict(own.uses), **turn}

    def restore(self, data: Mapping[str, Any]) -> None:
        """Restore what `to_dict` wrote.

        Raises:
            msgspec.ValidationError: It is something else; nothing has changed then.
        """
        kept = convert_value(data, Kept)
        self._own.uses = dict(kept.by_tool if kept.uses is None else kept.uses)
        self._own.kept = replace(kept, uses=None)
        self._own.set_turn(kept.rounds, kept.calls_of_turn, kept.seconds)


def _read_tokens(usage: Mapping[str, Any]) -> tuple[int, int, int]:
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
