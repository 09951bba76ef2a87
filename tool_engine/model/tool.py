"""What is a tool, once its definition is loaded?"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from enum import Enum
from functools import cached_property
from importlib import import_module
from inspect import getattr_static
from typing import Any, Final

import msgspec

from tool_engine.model.call import check_timeout
from tool_engine.model.checks.bounds import check_choice, check_count
from tool_engine.model.checks.field_types import check_kinds
from tool_engine.model.checks.known_fields import KnownFields
from tool_engine.model.json.data import Data, redact_json, show_repr
from tool_engine.model.json.returned_value import copy_plain
from tool_engine.model.json.secret_schema import (
    UNNAMED,
    is_write_only,
    mappings_in,
    write_only_names,
)
from tool_engine.model.parameter import ToolParameter
from tool_engine.model.permission import Permission
from tool_engine.model.result import ResultLimits
from tool_engine.model.schema import parameters_schema
from tool_engine.model.settings.concurrency import SCOPES, ToolConcurrency, ToolRate

_RETRIED: Final = ("execution_error", "timeout", "worker_lost")
SCALARS: Final = frozenset({str, int, float, bool, type(None)})
"""The classes of values with nothing inside."""
MODEL: Final = "model"
CODE: Final = "code"
EVERYONE: Final = (MODEL, CODE)
HINTS: Final = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
"""The annotations of MCP that are true or false."""
"""The audience of a tool that does not say one."""


def is_source_name(source: str | None) -> bool:
    """Return True for `<mcp:github>`, an added source; paths of definition files end otherwise."""
    return source is not None and source.startswith("<") and source.endswith(">")


class ToolCategory(str, Enum):
    """What a tool works on; the default bucket of its calls."""

    HTTP = "http"
    DATABASE = "database"
    FILE = "file"
    AI = "ai"
    NOTIFICATION = "notification"
    CUSTOM = "custom"


class RetryPolicy(msgspec.Struct, Data, frozen=True, gc=False, metaclass=KnownFields):
    """When a failed call is tried again. Applies only to read-only or idempotent tools."""

    attempts: int
    """The most times that the tool is run for one call, the first included."""
    backoff: float = 0.1
    """Seconds before the second attempt; doubles for each one after."""
    on: tuple[str, ...] = _RETRIED
    """The error types that are tried again."""

    def __post_init__(self) -> None:
        check_count("attempts", self.attempts, minimum=1)
        if self.backoff != 0:
            check_timeout("backoff", self.backoff)
        check_kinds(self, ("on",))
        for error_type in self.on:
            check_choice("on", error_type, _RETRIED)


class _ToolFields(msgspec.Struct, Data, frozen=True, dict=True, metaclass=KnownFields):
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
    output_mode: str = "enforce"
    """enforce, warn or off: an output that is not what was declared fails the call, or is said."""
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
    """True if the user is asked before it runs, or before a model reads its result."""
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
    """The file that the definition came from, or an added source, as `<mcp:github>`; None: code."""
    findings: list[str] = []
    """Warnings about the definition, each with its place and cure."""
    input_schema: dict[str, Any] | None = None
    """The JSON Schema of the arguments that a definition's `parameters` is; None: it is a list.
    `parameters` then has what it declares."""
    once_secret: tuple[str, ...] = ()
    """What earlier definitions of its name called secret, and this one does not; hidden, too."""
    title: str | None = None
    """What people read beside its name: in lists, questions and clients of MCP."""
    audience: tuple[str, ...] = EVERYONE
    """Who may call it: `("model", "code")`, or `("code",)`: no model is shown it or may call it."""
    aliases: tuple[str, ...] = ()
    """Further names under which a call finds it; one that another tool has, too, finds neither."""
    vcp_command: str | None = None
    """The command of its method in VCP; None: the part of its name after the last `_`."""
    annotations: dict[str, Any] | None = None
    """The hints of MCP that its definition gives: `readOnlyHint` and the like; any others too."""
    background: str = "allowed"
    """never, allowed or required: whether a call of it may, or must, outlive its caller."""

    @property
    def bucket(self) -> str:
        """The bucket that its calls count against: the declared one, else the category."""
        return self.concurrency.bucket or self.category.value

    @property
    def origin(self) -> str:
        """Where it comes from: `code`, `file:` and a path, or the name of an added source."""
        if self.source is None:
            return "code"
        return self.source[1:-1] if is_source_name(self.source) else f"file:{self.source}"

    @property
    def handler(self) -> str:
        """The name of its executor: `entry.handler`, else the tool's own name."""
        return str(self.implementation_config.get("handler") or self.name)

    @property
    def is_enabled(self) -> bool:
        """True if models may see it; draft and deprecated tools can be called but are not shown."""
        return self.status in ("testing", "published") and self.is_for_models

    @property
    def is_for_models(self) -> bool:
        """True if models may call it; to them any other one does not exist."""
        return MODEL in self.audience

    @property
    def is_offered(self) -> bool:
        """True if models can call it: it is neither for code nor for tasks only."""
        return self.is_for_models and self.background != "required"

    @property
    def may_retry(self) -> bool:
        """True if running it twice for one call is known to be harmless."""
        return self.effect == "read" or self.idempotent or self._sends_idempotency_key

    @property
    def _sends_idempotency_key(self) -> bool:
        request = self.implementation_config.get("request")
        if request is None:
            return False
        return isinstance(request, Mapping) and bool(request.get("idempotency_key"))

    @cached_property
    def parameters_schema(self) -> dict[str, Any]:
        """The parameters as one JSON Schema 2020-12 object; read it, do not change it.

        It is the only source for validation, model formats and forms.
        """
        written = self.input_schema
        return parameters_schema(self.parameters) if written is None else written

    @cached_property
    def secret_names(self) -> frozenset[str]:
        """The names of the parameters whose values are hidden in records, events and logs."""
        return frozenset(each.name for each in self.parameters if each.secret)

    @cached_property
    def secret_parts(self) -> frozenset[str]:
        """The names of all properties that are hidden: `writeOnly`, or once secret.

        `UNNAMED` is among them where arguments are that have no name in the schema.
        """
        # In a list of parameters each has a name.
        schema = self.parameters_schema
        others = self.input_schema is not None and is_write_only(schema)
        found = (*self.once_secret, *write_only_names(schema), *([UNNAMED] if others else ()))
        return frozenset(found)

    @cached_property
    def secret_defaults(self) -> list[tuple[str | None, Any]]:
        """Secrets filled in as defaults, with the omitted parameter; None: inside one."""
        found: list[tuple[str | None, Any]] = []
        schemas, parts = self.parameters_schema.get("properties", {}), self.secret_parts
        for each in self.parameters:
            is_secret = each.secret or each.name in parts
            if each.has_default:
                whole = [each.default] if is_secret else values_under(each.default, parts)
                found += ((each.name, value) for value in whole)
            inside = _defaults_inside(schemas.get(each.name), parts, is_secret=is_secret)
            found += ((None, value) for value in inside)
        return found

    @cached_property
    def declared_keys(self) -> frozenset[str]:
        """The names of all parameters, and of all properties of objects that are declared."""
        parts = (part.get("properties") for part in mappings_in(self.parameters_schema))
        return frozenset(name for part in parts if isinstance(part, dict) for name in part)

    def to_dict(self) -> dict[str, Any]:
        """Return the definition as JSON values, with `[hidden]` in place of secrets.

        Keys that hold their default are left out, and what no definition says: `id`, `source`,
        `findings`, `definition_hash`. `register_tool(values, handler)` makes the same tool of it,
        where nothing had to be hidden; `${env:NAME}` is no secret.
        """
        definition = import_module("tool_engine.catalog.definition.export").definition_of(self)
        for parameter in definition.get("parameters", ()) if self.input_schema is None else ():
            if parameter.get("secret") and parameter.get("default") is not None:
                parameter["default"] = "[hidden]"
        values: dict[str, Any] = redact_json(copy_plain(definition))
        return values

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Tool):
            return NotImplemented
        return self is other or all(
            getattr(self, field) == getattr(other, field) for field in self.__struct_fields__
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        names = ", ".join(parameter.name for parameter in self.parameters[:8])
        more = ", …" if len(self.parameters) > 8 else ""
        origin = self.source or "code"
        return f"Tool({self.name!r} {self.version} from {origin}, takes {names or 'nothing'}{more})"

    __rich_repr__ = show_repr


def pack_tool(tool: Tool, **changes: Any) -> Tool:
    """Return the same tool in little memory and outside of garbage collections.

    Ten thousand tools of lists and mappings are a hundred thousand objects, which each full
    collection visits one by one. A packed tool holds their JSON text instead, from which they are
    made whenever they are read, and nothing else that a collection would have to follow.

    Args:
        tool: Its lists and mappings hold only what JSON can say.
        changes: Other fields that the result has otherwise.
    """
    packed = {}
    for field in _FIELDS:
        value = field.slot.__get__(tool)
        if value is not None and value.__class__ is not field.packed_type:
            packed[field.name] = _pack_value(value)
    return msgspec.structs.replace(tool, **packed, **changes)


def server_of(tool: Tool) -> str | None:
    """Return the server that its `entry` names; quick for a packed tool."""
    text = _ENTRY.packed(tool)
    if text is not None and b'"mcp"' not in text:
        return None
    entry = tool.implementation_config
    server = entry.get("server") if entry.get("type") == "mcp" else None
    return server if isinstance(server, str) else None


def may_declare_secrets(tool: Tool) -> bool:
    """False if it has neither secret parameters nor secret parts; quick for a packed tool."""
    if tool.once_secret:
        return True
    for field in (_PARAMETERS, _INPUT_SCHEMA):
        text = field.packed(tool)
        if text is None:
            return bool(tool.secret_names or tool.secret_parts)
        if b'"secret":true' in text or b"writeOnly" in text:
            return True
    return False


def content_of(tool: Tool) -> bytes:
    """Return what a tool is, for its hash.

    What came later to definitions is left out where a tool says nothing of it, so that what was
    approved before stays approved.
    """
    content = msgspec.json.encode(tool, order="deterministic")
    if tool.concurrency.scope == SCOPES[0]:
        content = _leave_out_scope(tool, content)
    for unsaid in _UNSAID:
        if content.endswith(unsaid):
            content = content.removesuffix(unsaid) + b"}"
    return content


def _leave_out_scope(tool: Tool, content: bytes) -> bytes:
    # No default says the same: the keys of its mappings are sorted.
    said = (
        _SAID
        if tool.concurrency is _DEFAULTS["concurrency"]
        else _write_concurrency(tool.concurrency)
    )
    before, _, after = content.partition(said)
    return before + said.removesuffix(_SCOPE) + b"}" + after


def _write_concurrency(concurrency: ToolConcurrency) -> bytes:
    return b'"concurrency":' + msgspec.json.encode(concurrency, order="deterministic")


def is_same(new: Tool, old: Tool) -> bool:
    """True if consent to the one tool is consent to the other."""
    if new is old:
        return True
    if new.definition_hash or old.definition_hash:
        return new.definition_hash == old.definition_hash and new.version == old.version
    return new == old


def values_under(value: Any, names: Collection[str]) -> Iterator[Any]:
    """Yield the values under one of the names, at any depth."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, Mapping):
            yield from (part for key, part in item.items() if key in names)
            waiting += [each for each in item.values() if each.__class__ not in SCALARS]
        elif isinstance(item, list | tuple):
            # Most items of long lists are texts and numbers, which have nothing inside.
            waiting += [each for each in item if each.__class__ not in SCALARS]


def _defaults_inside(schema: Any, names: Collection[str], *, is_secret: bool) -> Iterator[Any]:
    """Yield the secrets among the defaults that validation fills in below a value."""
    waiting = [(schema, is_secret, False)]
    while waiting:
        part, is_secret, is_inside = waiting.pop()
        if not isinstance(part, Mapping):
            continue
        if is_inside and "default" in part:
            default = part["default"]
            yield from [default] if is_secret else values_under(default, names)
        waiting += ((part.get(key), is_secret, True) for key in ("items", "additionalProperties"))
        properties = part.get("properties", {})
        waiting += ((each, is_secret or name in names, True) for name, each in properties.items())


class _PackedField:
    """A field of `Tool` that holds its value, or a text that it is read from on demand."""

    __slots__ = ("_unpack", "name", "packed_type", "slot")

    def __init__(self, name: str, packed_type: type, unpack: Callable[[Any], Any]) -> None:
        self.name = name
        self.slot = getattr_static(Tool, name)
        self.packed_type = packed_type
        self._unpack = unpack
        setattr(Tool, name, self)

    def __get__(self, tool: Tool | None, owner: type[Tool] | None = None) -> Any:
        if tool is None:
            return self
        value = self.slot.__get__(tool, owner)
        return self._unpack(value) if value.__class__ is self.packed_type else value

    def __set__(self, tool: Tool, value: object) -> None:
        # Only `force_setattr` comes here: a plain assignment to a frozen value is refused before.
        self.slot.__set__(tool, value)

    def packed(self, tool: Tool) -> bytes | None:
        """Return the JSON text that it holds, empty for None; None: it is not packed."""
        value = self.slot.__get__(tool)
        if value is None:
            return b""
        return bytes(value) if value.__class__ is msgspec.Raw else None


def _pack_value(value: Any) -> Any:
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
            *("examples", "tests", "findings", "input_schema", "annotations"),
        )
    ),
)
_PARAMETERS, _INPUT_SCHEMA, _ENTRY = (
    next(field for field in _FIELDS if field.name == name)
    for name in ("parameters", "input_schema", "implementation_config")
)
PACKED_FIELDS: Final = frozenset(field.name for field in _FIELDS)
"""The fields that a packed tool holds as JSON text (`msgspec.Raw`); of the category, the value."""

_LATER: Final = (
    ("background",),
    ("title", "audience", "aliases", "vcp_command", "annotations"),
)
"""The last fields, which definitions did not have from the start, the newest first."""
_SCOPE: Final = b',"scope":"process"}'
_OPTIONAL: Final = Tool.__struct_fields__[-len(Tool.__struct_defaults__) :]
_DEFAULTS: Final = dict(zip(_OPTIONAL, Tool.__struct_defaults__, strict=True))
_SAID: Final = _write_concurrency(_DEFAULTS["concurrency"])
_UNSAID: Final = [
    b"," + msgspec.json.encode({name: _DEFAULTS[name] for name in names})[1:] for names in _LATER
]
