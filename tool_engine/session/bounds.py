"""How much has a conversation spent, and may it go on? A8, U47.

Everything is decided at once, without waiting: a call that may run has been counted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final

import msgspec

from tool_engine.model.call import ErrorType, Refusal
from tool_engine.session.config import ToolCallConfig

__all__ = ["Meter", "Spending", "Usage"]

_INPUT: Final = (
    ("prompt_tokens",),
    ("promptTokenCount", "toolUsePromptTokenCount"),
    ("prompt_token_count", "tool_use_prompt_token_count"),
    ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"),
)
"""What a model read. Anthropic counts apart what a cache holds; the others count it in. Servers in
between tell the same under several names: the first that is told counts."""
_OUTPUT: Final = (
    ("completion_tokens",),
    ("candidatesTokenCount", "thoughtsTokenCount"),
    ("candidates_token_count", "thoughts_token_count"),
    ("output_tokens",),
)
"""What a model wrote. Gemini counts its thoughts apart; the others count them in."""
_TOTAL: Final = (("total_tokens",), ("totalTokenCount",), ("total_token_count",))
_Count = Annotated[int, msgspec.Meta(ge=0)]
_ROUNDS: Final = "max_rounds_reached"
_CALLS: Final = "max_calls_reached"
_TOKENS: Final = "max_tokens_reached"
_SECONDS: Final = "max_seconds_reached"


class Usage(msgspec.Struct, frozen=True, kw_only=True):
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
    """What outlives a process: all but the bounds of one turn."""

    turns: _Count = 0
    calls: _Count = 0
    input_tokens: _Count = 0
    output_tokens: _Count = 0
    total_tokens: _Count = 0
    by_tool: dict[str, _Count] = {}


class Spending:
    """What one conversation has spent, against its own bounds only; part of a `Meter`."""

    def __init__(self, config: ToolCallConfig, clock: Callable[[], float]) -> None:
        self.config = config
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

    def count_call(self, tool_name: str) -> None:
        """Counts a call that may run."""
        self.kept.calls += 1
        self.calls_of_turn += 1
        self.kept.by_tool[tool_name] = self.kept.by_tool.get(tool_name, 0) + 1

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
        most = self.config.max_tokens
        return most is not None and self.kept.total_tokens >= most

    @property
    def spent_calls(self) -> str | None:
        """Which calls are used up, if they are."""
        most, whole = self.config.max_calls_per_turn, self.config.max_calls
        if self._began is not None and self.calls_of_turn >= most:
            return f"the {most} calls of one turn are used up"
        if whole is not None and self.kept.calls >= whole:
            return f"the {whole} calls of the conversation are used up"
        return None

    def refusal(self, tool_name: str, max_uses: int | None) -> Refusal | None:
        """Why one more call may not run."""
        if self.stopped is not None:
            return self.stopped
        if self.seconds_left == 0:
            return _refusal(_SECONDS, "the time of the turn is up")
        if self.has_spent_tokens:
            message = f"the {self.config.max_tokens} tokens of the conversation are used up"
            return _refusal(_TOKENS, message)
        spent = self.spent_calls
        if spent is not None:
            return _refusal(_CALLS, spent)
        most = self.config.max_uses.get(tool_name, max_uses)
        if most is not None and self.kept.by_tool.get(tool_name, 0) >= most:
            message = f"the {most} calls of {tool_name!r} in one conversation are used up"
            return _refusal("max_uses_reached", message)
        return None


class Meter:
    """Counts what a conversation spends, and says when that is enough.

    Args:
        config: The bounds. A session that changes them sets `config`.
        parent: Of the conversation that this one works for: its calls, tokens and seconds are
            spent, too, and its bounds hold as well. Rounds are each one's own.
        clock: Seconds that only grow.
    """

    def __init__(
        self,
        config: ToolCallConfig,
        parent: Meter | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._own = Spending(config, clock)
        self.line: tuple[Spending, ...] = (self._own, *(() if parent is None else parent.line))
        """Its own spending, then that of the conversations that it works for."""

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
        self._own.rounds += 1
        return None

    def take(self, tool_name: str, max_uses: int | None = None) -> Refusal | None:
        """Counts one call; None: it may run. One that may not is not counted anywhere.

        Args:
            tool_name: The tool.
            max_uses: What its definition says; the conversation's own setting goes before.
        """
        for each in self.line:
            refusal = each.refusal(tool_name, max_uses)
            if refusal is not None:
                return refusal
        for each in self.line:
            each.count_call(tool_name)
        return None

    def add_tokens(self, usage: Mapping[str, Any] | None) -> None:
        """Adds what one reply cost, under the names that its provider has for it."""
        if not isinstance(usage, Mapping):
            return
        read, wrote = _sum(usage, _INPUT), _sum(usage, _OUTPUT)
        total = max(read + wrote, _sum(usage, _TOTAL))
        for each in self.line:
            each.count_tokens(read, wrote, total)

    def reached(self) -> str | None:
        """Why the model may call no more in this turn; None: it may.

        `max_seconds_reached`, `max_tokens_reached`, `max_calls_reached` or `max_rounds_reached`;
        of several the first in this order.
        """
        if self.seconds_left() == 0:
            return _SECONDS
        if any(each.has_spent_tokens for each in self.line):
            return _TOKENS
        if any(each.spent_calls for each in self.line):
            return _CALLS
        return _ROUNDS if self._own.rounds >= self.config.max_iterations else None

    def seconds_left(self) -> float | None:
        """Seconds until the turn must have ended, at least 0; None: nothing says when."""
        left = [each.seconds_left for each in self.line if each.seconds_left is not None]
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
        """What counts for the whole conversation, as JSON values."""
        return dict(msgspec.to_builtins(self._own.kept))

    def restore(self, data: Mapping[str, Any]) -> None:
        """Goes on from what `to_dict` wrote.

        Raises:
            msgspec.ValidationError: It is something else; nothing has changed then.
        """
        self._own.kept = msgspec.convert(data, _Kept)


def _refusal(reason: str, message: str) -> Refusal:
    told = f"{message}: answer with what is known, without this call"
    return Refusal(ErrorType.LIMIT_REACHED.value, told, {"reason": reason})


def _sum(usage: Mapping[str, Any], ways: tuple[tuple[str, ...], ...]) -> int:
    for names in ways:
        found = (usage.get(name) for name in names)
        counted = sum(each for each in found if type(each) is int and each > 0)
        if counted:
            return counted
    return 0
