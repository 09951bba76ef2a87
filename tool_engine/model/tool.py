"""What is a tool, once its definition is loaded?"""

from __future__ import annotations

from enum import Enum
from functools import cached_property
from typing import Any

import msgspec

from tool_engine.model.concurrency import ToolConcurrency, ToolRate
from tool_engine.model.parameter import ToolParameter
from tool_engine.model.schema import parameters_schema

__all__ = ["RetryPolicy", "Tool", "ToolCategory"]


class ToolCategory(str, Enum):
    """What a tool works on; the default bucket of its calls."""

    HTTP = "http"
    DATABASE = "database"
    FILE = "file"
    AI = "ai"
    NOTIFICATION = "notification"
    CUSTOM = "custom"


class RetryPolicy(msgspec.Struct, frozen=True):
    """When a failed call is tried again. Applies only to read-only or idempotent tools."""

    attempts: int
    """The most times that the tool is run for one call, the first included."""
    backoff: float = 0.1
    """Seconds before the second attempt; doubles for each one after."""
    on: tuple[str, ...] = ("execution_error", "timeout")
    """The error types that are tried again."""


class _ToolFields(msgspec.Struct, frozen=True, dict=True):
    """The fields of the founding document, in its order."""

    id: str
    name: str
    version: str
    description: str
    category: ToolCategory
    tags: list[str]
    parameters: list[ToolParameter]
    implementation_config: dict[str, Any]
    """The definition's `entry`: `type`, `handler` and what the executor reads."""
    status: str = "published"
    """draft, testing, published or deprecated."""


class Tool(_ToolFields, frozen=True, dict=True, kw_only=True):
    """A loaded tool. Immutable: an edit makes a new one (`msgspec.structs.replace`)."""

    output: dict[str, Any] | None = None
    """JSON Schema of the output, from `output` or `returns`."""
    author: str | None = None
    icon: str | None = None
    shareable_scope: str = "private"
    """private, team or public."""
    timeout: float | None = None
    """Seconds that a call may run when its caller names no timeout."""
    retry: RetryPolicy | None = None
    effect: str = "unknown"
    """read, write or unknown."""
    idempotent: bool = False
    concurrency: ToolConcurrency = ToolConcurrency()
    rate: ToolRate | None = None
    definition_hash: str = ""
    """sha256 of the definition's content; two tools with the same hash behave the same."""
    source: str | None = None
    """The file that the definition came from; None for a tool registered in code."""
    findings: list[str] = []
    """Warnings about the definition, each with its place and cure."""

    @property
    def bucket(self) -> str:
        """The bucket that its calls count against: the declared one, else the category."""
        return self.concurrency.bucket or self.category.value

    @property
    def handler(self) -> str:
        """The name of its executor: `entry.handler`, else the tool's own name."""
        return str(self.implementation_config.get("handler") or self.name)

    @property
    def is_enabled(self) -> bool:
        """Whether models are told about it: a draft or deprecated tool answers but is not shown."""
        return self.status in ("testing", "published")

    @property
    def may_retry(self) -> bool:
        """Whether running it twice is known to be harmless."""
        return self.effect == "read" or self.idempotent

    @cached_property
    def parameters_schema(self) -> dict[str, Any]:
        """The parameters as one JSON Schema 2020-12 object; read it, do not change it.

        It is the only source for validation, model formats and forms.
        """
        return parameters_schema(self.parameters)
