"""How are the calls of a reply run: how many at once, in which order, how long, who is asked?"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Collection
from typing import Any, Final

import msgspec

from tool_engine.errors import ConfigurationError
from tool_engine.model.approval import ApprovalDecision
from tool_engine.model.call import (
    ToolCall,
    ToolExecutionContext,
    ToolExecutionResult,
    check_timeout,
)
from tool_engine.model.checks.bounds import check_choice, check_count
from tool_engine.model.checks.field_types import check_kinds
from tool_engine.model.checks.known_fields import KnownFields
from tool_engine.model.context_check import check_context
from tool_engine.model.json.returned_value import safe_repr
from tool_engine.model.progress import ToolProgress, check_listener
from tool_engine.model.tool import Tool

GIVEN: Final = "given"
BY_EFFECT: Final = "by_effect"
_Said = ApprovalDecision | bool | str | None
_Answer = Awaitable[_Said] | _Said
BeforeExecute = Callable[[ToolCall, Tool], _Answer] | Callable[[ToolCall], _Answer]
"""A callback before each call, sync or async, that may refuse it.

True, or None: it runs. False, or a text with the reason, or an exception: it does not. An
`ApprovalDecision` says the same and who answered; it is for the one call, whatever it says of later
ones. A function of one argument gets the call only.
"""
OnResult = Callable[[ToolCall, ToolExecutionResult], object]
"""A callback for each result as soon as it is there, sync or async.

Other calls go on meanwhile; its errors are logged.
"""
OnProgress = Callable[[ToolCall, ToolProgress], object]
"""A plain function that hears how far each call has come; its errors are logged."""

_LANGUAGES: Final = ("en", "zh")
_FUNCTIONS: Final = (("on_before_execute", "tool"), ("on_result", "result"))


class CycleOptions(msgspec.Struct, frozen=True, kw_only=True, metaclass=KnownFields):
    """The settings for running the calls of a reply."""

    max_parallel: int | None = 1
    """The most calls that run at the same time; 1: one after the other.

    None: all of them, within what the engine admits.
    """
    order: str = GIVEN
    """`given`: calls begin in the reply's order, `max_parallel` of them at once.
    `by_effect`: this holds only for neighbouring calls of tools with `effect: read`; each other
    call runs alone, after all before it and before all after it.
    """
    timeout: float | None = None
    """Seconds for each call, from its turn to its result. None: by `context` and the tool."""
    total_timeout: float | None = None
    """Seconds for all calls together; those that have not ended by then end as `timeout`."""
    approval_timeout: float | None = None
    """Seconds for `on_before_execute` to answer, once for each call; then the call is refused.
    None: `timeout`, or five minutes.
    """
    context: ToolExecutionContext | None = None
    """Who calls, and within which limits."""
    on_before_execute: BeforeExecute | None = None
    """Called before each call; decides whether it may run."""
    on_result: OnResult | None = None
    """Called with each result."""
    on_progress: OnProgress | None = None
    """Called with each call whose tool says how far it has come, in place of `context`'s."""
    tools: Collection[str] | None = None
    """The names of the tools that may be called; None: every tool that is enabled."""
    aliases: dict[str, str] = {}
    """Other names of tools, such as the commands of another program: alias -> tool."""
    max_calls: int = 50
    """The most calls of one reply that are run; each further one is refused."""
    format_results: bool = True
    """Whether the results are formatted for the model."""
    language: str = "en"
    """The language of refusals that the model reads: `en` or `zh`."""

    def __post_init__(self) -> None:
        if self.max_parallel is not None:
            check_count("max_parallel", self.max_parallel, minimum=1)
        check_count("max_calls", self.max_calls, minimum=1)
        check_choice("language", self.language, _LANGUAGES)
        check_choice("order", self.order, (GIVEN, BY_EFFECT))
        for name in ("timeout", "total_timeout", "approval_timeout"):
            value = getattr(self, name)
            if value is not None:
                check_timeout(name, value)
        check_kinds(self, ("aliases", "format_results"))
        if self.tools is not None and not _is_of_names(self.tools):
            raise ConfigurationError(
                f"tools must be a list of tool names, got {safe_repr(self.tools)[:80]}"
            )
        if self.context is not None:
            check_context(self.context)
        for name, words in _FUNCTIONS:
            if getattr(self, name) is not None and not callable(getattr(self, name)):
                raise ConfigurationError(f"{name} must be a function of a call and its {words}")
        if self.on_progress is not None:
            check_listener("on_progress", self.on_progress)
        msgspec.structs.force_setattr(
            self, "on_before_execute", accept_call_alone(self.on_before_execute)
        )


def _is_of_names(value: object) -> bool:
    is_listing = isinstance(value, Collection) and not isinstance(value, str | bytes)
    return is_listing and all(isinstance(name, str) for name in value)  # type: ignore[attr-defined]


def accept_call_alone(ask: Any) -> Any:
    """Return `on_before_execute` as a function of a call and its tool.

    The founding document asks with the call alone, so a function may take just that. A29. Anything
    but a function is returned as it is.

    Raises:
        ConfigurationError: It takes neither one nor two arguments.
    """
    if not callable(ask) or _accepts_count(ask, 2):
        return ask
    if not _accepts_count(ask, 1):
        raise ConfigurationError(
            "on_before_execute must be a function of a call and its tool, or of a call: "
            f"{getattr(ask, '__name__', ask)!r} takes neither one argument nor two"
        )
    return lambda call, tool: ask(call)


def _accepts_count(function: Callable[..., Any], count: int) -> bool:
    try:
        inspect.signature(function).bind(*range(count))
    except TypeError:
        return False
    except ValueError:
        # Some functions in C do not declare their parameters.
        return True
    return True
