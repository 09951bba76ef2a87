"""What does a call ask the controller for?"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import msgspec

from tool_engine.errors import ConfigurationError
from tool_engine.model.call import ToolExecutionContext, check_timeout
from tool_engine.model.tool import DEFAULT_PRIORITY, Tool, ToolRate

__all__ = ["AdmissionRequest"]

DEFAULT_BUCKET = "__default__"


class AdmissionRequest(msgspec.Struct):
    """What a call needs to run; one request serves all calls of a tool that are alike."""

    bucket: str = DEFAULT_BUCKET
    priority: int = DEFAULT_PRIORITY
    weight: int = 1
    lane: str = DEFAULT_BUCKET
    """The line to wait in: the bucket's own, or that of a tool with a rate."""
    rate: ToolRate | None = None
    is_bypass: bool = False
    """Whether the limits do not apply to the caller."""
    timeout: float | None = None
    """Seconds to wait at most; None: the controller's `queue_timeout`."""
    parent: Any = None
    """The slot of the call that makes this one; its place in line is inherited."""

    @classmethod
    def of(
        cls,
        bucket: str | None,
        context: ToolExecutionContext | None,
        priority: int | None,
        weight: int,
        timeout: float | None,
        bypass: Collection[str],
    ) -> AdmissionRequest:
        """A request that no tool stands behind; `bypass` holds the caller types without limits.

        Raises:
            ConfigurationError: A value is out of range.
        """
        if isinstance(weight, bool) or not isinstance(weight, int) or weight < 1:
            raise ConfigurationError(f"weight must be a whole number >= 1, got {weight!r}")
        if timeout is not None:
            check_timeout("timeout", timeout)
        if priority is None and context is not None:
            priority = context.priority
        name = DEFAULT_BUCKET if bucket is None else bucket
        return cls(
            bucket=name,
            priority=DEFAULT_PRIORITY if priority is None else priority,
            weight=weight,
            lane=name,
            is_bypass=context is not None and context.caller_type in bypass,
            timeout=timeout,
        )

    @classmethod
    def for_tool(cls, tool: Tool) -> AdmissionRequest:
        """What an ordinary call of `tool` asks for."""
        return cls(
            bucket=tool.bucket,
            priority=tool.concurrency.priority,
            weight=tool.concurrency.weight,
            lane=f"{tool.bucket}\0{tool.name}\0{tool.rate}" if tool.rate else tool.bucket,
            rate=tool.rate,
        )

    def for_caller(
        self, priority: int | None, is_bypass: bool, parent: Any = None
    ) -> AdmissionRequest:
        """The same request on behalf of one caller."""
        return AdmissionRequest(
            self.bucket,
            self.priority if priority is None else priority,
            self.weight,
            self.lane,
            self.rate,
            is_bypass,
            self.timeout,
            parent,
        )
