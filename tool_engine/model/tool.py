"""What is a tool, once its definition is loaded?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from functools import cached_property
from inspect import getattr_static
from typing import Any, Final

import msgspec

from tool_engine.model.concurrency import ToolConcurrency, ToolRate
from tool_engine.model.parameter import ToolParameter
from tool_engine.model.permission import Permission
from tool_engine.model.result import ResultLimits
from tool_engine.model.schema import parameters_schema

__all__ = ["PACKED_FIELDS", "RetryPolicy", "Tool", "ToolCategory", "pack"]


class ToolCategory(str, Enum):
    """What a tool works on; the default bucket of its calls."""

    HTTP = "http"
    DATABASE = "database"
    FILE = "file"
    AI = "ai"
    NOTIFICATION = "notification"
    CUSTOM = "custom"


class RetryPolicy(msgspec.Struct, frozen=True, gc=False):
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
    """A loaded tool. Immutable: an edit makes a new one (`msgspec.structs.replace`).

    The lists and mappings of a tool that was loaded are made anew whenever they are read, so that
    thousands of tools cost little memory and no time in garbage collections: read one once, and
    what you do to it does not change the tool.
    """

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
    result: ResultLimits | None = None
    """How much of its output is shown; None: all of it."""
    permission: Permission | None = None
    """Whether somebody is asked before it runs, or before a model reads its result."""
    accepts: list[str] | None = None
    """The labels that a value may carry which is sent to it by reference; None: any."""
    max_uses: int | None = None
    """The most calls of it in one session."""
    examples: list[dict[str, Any]] = []
    """Calls that show how it is used, as the definition writes them."""
    tests: list[dict[str, Any]] = []
    """Calls with what must come of them, as the definition writes them."""
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
        """Whether running it twice for one call is known to be harmless."""
        return self.effect == "read" or self.idempotent or self._sends_idempotency_key

    @property
    def _sends_idempotency_key(self) -> bool:
        request = self.implementation_config.get("request")
        return isinstance(request, Mapping) and bool(request.get("idempotency_key"))

    @cached_property
    def parameters_schema(self) -> dict[str, Any]:
        """The parameters as one JSON Schema 2020-12 object; read it, do not change it.

        It is the only source for validation, model formats and forms.
        """
        return parameters_schema(self.parameters)

    @cached_property
    def secret_names(self) -> frozenset[str]:
        """The names of the parameters whose values are hidden in records, events and logs."""
        return frozenset(each.name for each in self.parameters if each.secret)

    @cached_property
    def secret_parts(self) -> frozenset[str]:
        """The names of all properties that a raw schema marks `writeOnly`: they are hidden, too."""
        return frozenset(_write_only(self.parameters_schema))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Tool):
            return NotImplemented
        return self is other or all(
            getattr(self, field) == getattr(other, field) for field in self.__struct_fields__
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        fields = (f"{field}={getattr(self, field)!r}" for field in self.__struct_fields__)
        return f"Tool({', '.join(fields)})"


def pack(tool: Tool) -> Tool:
    """The same tool, kept in little memory and out of the garbage collector's way.

    Ten thousand tools of lists and mappings are a hundred thousand objects, which each full
    collection visits one by one. A packed tool holds their JSON text instead, from which they are
    made whenever they are read, and nothing else that a collection would have to follow.

    Args:
        tool: Its lists and mappings hold only what JSON can say.
    """
    return msgspec.structs.replace(tool, **{field.name: field.pack(tool) for field in _FIELDS})


def _write_only(schema: Any) -> Iterator[str]:
    """The names of the properties that are `writeOnly`, wherever in `schema`."""
    if isinstance(schema, list):
        for part in schema:
            yield from _write_only(part)
    if not isinstance(schema, dict):
        return
    properties = schema.get("properties")
    for name, part in properties.items() if isinstance(properties, dict) else ():
        if isinstance(part, dict) and part.get("writeOnly") is True:
            yield name
    for part in schema.values():
        yield from _write_only(part)


class _PackedField:
    """A field of `Tool` that holds its value, or a text from which the value is made on demand."""

    __slots__ = ("_packed_type", "_slot", "_unpack", "name")

    def __init__(self, name: str, packed_type: type, unpack: Callable[[Any], Any]) -> None:
        self.name = name
        self._slot = getattr_static(Tool, name)
        self._packed_type = packed_type
        self._unpack = unpack
        setattr(Tool, name, self)

    def __get__(self, tool: Tool | None, owner: type[Tool] | None = None) -> Any:
        if tool is None:
            return self
        value = self._slot.__get__(tool, owner)
        return self._unpack(value) if value.__class__ is self._packed_type else value

    def __set__(self, tool: Tool, value: object) -> None:
        # Only `force_setattr` comes here: a plain assignment to a frozen value is refused before.
        self._slot.__set__(tool, value)

    def pack(self, tool: Tool) -> Any:
        value = self._slot.__get__(tool)
        if value is None or value.__class__ is self._packed_type:
            return value
        if isinstance(value, ToolCategory):
            return value.value
        try:
            return msgspec.Raw(msgspec.json.encode(value)) if value else _EMPTY[value.__class__]
        except UnicodeEncodeError:
            # A finding names its file, and a file's name may be no text.
            return value


_EMPTY: Final = {list: msgspec.Raw(b"[]"), dict: msgspec.Raw(b"{}")}
_CATEGORIES: Final = {category.value: category for category in ToolCategory}
_FIELDS: Final = (
    _PackedField("category", str, _CATEGORIES.__getitem__),
    _PackedField("parameters", msgspec.Raw, msgspec.json.Decoder(list[ToolParameter]).decode),
    *(
        _PackedField(name, msgspec.Raw, msgspec.json.decode)
        for name in (
            *("tags", "implementation_config", "output", "accepts"),
            *("examples", "tests", "findings"),
        )
    ),
)
PACKED_FIELDS: Final = frozenset(field.name for field in _FIELDS)
"""The fields of which a packed tool holds the JSON text, as `msgspec.Raw`; of the category, the
value."""
