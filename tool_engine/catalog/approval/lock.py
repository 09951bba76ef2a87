"""What does a lock file hold, and did a tool change since?

`tools.lock` has one line per approved tool: its version, a hash of what its definition says, and,
where a program registered the code that runs it, a hash of that code; and one line per approved
group. The line of a source's tool names the source. It is TOML, sorted by name, so that a review
shows each approval as one line.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import stat
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import msgspec

from tool_engine.catalog.approval.locked_group import PREFIX, LockedGroup, held_back
from tool_engine.catalog.approval.quarantine import QuarantinedTool
from tool_engine.catalog.kinds import Definition, ServerDefinition
from tool_engine.errors import LockFileError
from tool_engine.model.group import ToolGroup
from tool_engine.model.tool import Tool, is_source_name
from tool_engine.named_file import why_unread, why_unwritten

_FORMAT: Final = 1
_HEAD: Final = """\
# The tools that a person approved. An engine with `lock: enforce` calls no others.
# Written by `tool-engine lock`; approve a change with `tool-engine lock --approve NAME`.
"""
SERVER_PREFIX: Final = "server:"
"""The prefix of a server's name where tools and servers are named side by side."""
_NOT_CONTENT: Final = frozenset(
    {"id", "definition_hash", "source", "findings", "once_secret", "folder", "marks"}
)
_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")
_HASH: Final = re.compile(r"sha256:[0-9a-f]{64}")
_TABLES: Final = ("tools", "groups", "servers")
_FIELDS: Final = frozenset({"version", "definition", "handler", "origin"})


class LockedTool(msgspec.Struct, frozen=True):
    name: str
    version: str
    definition: str
    """`sha256:` and the hash of what the definition says."""
    handler: str | None = None
    """`sha256:` and the hash of the code that runs it; None: unknown when it was approved."""
    origin: str | None = None
    """The source that gives it, as `mcp:github`; None: a file defines it."""

    @classmethod
    def of(cls, tool: Tool, definition: str, handler: str | None) -> LockedTool:
        """Return the approval of a tool as it is."""
        origin = tool.origin if is_source_name(tool.source) else None
        return cls(tool.name, tool.version, definition, handler, origin)

    @classmethod
    def of_server(cls, server: ServerDefinition, definition: str) -> LockedTool:
        """Return the approval of a server as it is."""
        return cls(server.name, server.version, definition)


class ToolLock:
    """The approved tools, groups and servers of a lock file.

    With a `problem` the file cannot be used, and nothing is approved. `data` is what the file held.
    """

    def __init__(
        self,
        tools: Iterable[LockedTool] = (),
        *,
        file: str,
        problem: str | None = None,
        data: bytes = b"",
        groups: Iterable[LockedGroup] = (),
        servers: Iterable[LockedTool] = (),
    ) -> None:
        self.tools: dict[str, LockedTool] = {tool.name: tool for tool in tools}
        self.groups: dict[str, LockedGroup] = {group.name: group for group in groups}
        self.servers: dict[str, LockedTool] = {server.name: server for server in servers}
        self.file = file
        self.problem = problem
        self.data = data

    def __repr__(self) -> str:
        groups = f", {len(self.groups)} groups" if self.groups else ""
        count = f"{len(self.tools)} tools{groups}"
        state = count if self.problem is None else self.problem
        return f"ToolLock({self.file!r}, {state})"

    @classmethod
    def read(cls, file: str, known: ToolLock | None = None) -> ToolLock:
        """Read a lock file; return `known` if it is unchanged.

        Raises:
            LockFileError: It is missing, cannot be read, or is no lock file.
        """
        try:
            if not stat.S_ISREG(Path(file).stat().st_mode):
                raise _no_file(file)
            data = Path(file).read_bytes()
            if known is not None and known.problem is None and known.data == data:
                return known
            text = data.decode()
        except FileNotFoundError:
            raise LockFileError(
                f"there is no lock file {file}; write it with `tool-engine lock`"
            ) from None
        except OSError as error:
            raise LockFileError(f"cannot read {file}: {why_unread(error)}") from error
        except UnicodeDecodeError as error:
            raise _broken_error(file, f"it is not UTF-8 text (byte {error.start})") from error
        tools, groups, servers = _parse_lock(text, file)
        return cls(tools, file=file, data=data, groups=groups, servers=servers)

    @classmethod
    def read_or_start(cls, file: str, known: ToolLock | None = None) -> ToolLock:
        """Read a lock file as `read` does, or start an empty lock without one."""
        return cls.read(file, known) if os.path.lexists(file) else cls(file=file)

    def refusal(
        self, tool: Tool, content: str, handler: str | None, options: str | None = ""
    ) -> QuarantinedTool | None:
        """Return why `tool` may not be called; None: it may.

        Args:
            tool: Of a file or a source.
            content: Its `content_hash`.
            handler: The hash of its code; None: unknown.
            options: Those with which the command finds it; None: only a program does.
        """
        name, cure = tool.name, f"read it, then `tool-engine{options} lock --approve {tool.name}`"
        if options is None:
            cure = (
                f"read it, then `tool-engine lock --approve {name} --app MODULE:NAME`, or await "
                f"engine.lock_tools([{name!r}]) in the program that adds the source {tool.origin!r}"
            )
        known = self.tools.get(name)
        if self.problem is not None:
            message = f"the tool {name!r} is quarantined: {self.problem}"
            return QuarantinedTool(tool, "no_lock", message)
        if known is None:
            message = f"the tool {name!r} is quarantined: it is not in {self.file}; {cure}"
            return QuarantinedTool(tool, "new", message)
        if known.definition != content:
            message = (
                f"the tool {name!r} is quarantined: its definition (version {tool.version}) is not "
                f"the one that was approved (version {known.version}); {cure}"
            )
            return QuarantinedTool(tool, "changed", message, known.version)
        if known.handler is not None and handler is not None and known.handler != handler:
            is_named = ":" in tool.handler
            message = (
                f"the tool {name!r} is quarantined: the code of {tool.handler!r} is not the one "
                "that was approved"
            ) + (
                f"; {cure}"
                if is_named
                else ", or was registered after the last look: await engine.reload(); other code "
                f"is approved by the program: await engine.lock_tools([{name!r}])"
            )
            return QuarantinedTool(tool, "handler_changed", message, known.version)
        return None

    def held_back(self, name: str, group: ToolGroup | None, content: str) -> ToolGroup | None:
        """Return the stand-in for an unapproved group; None: it is approved.

        `group` is what its file says, None without a file; `content` is its `content_hash`.
        """
        known = self.groups.get(name)
        cure = f"`tool-engine lock --approve {PREFIX}{name}`"
        if self.problem is not None:
            why = self.problem
        elif known is None:
            why = f"it is not in {self.file}; read it, then {cure}"
        elif group is None:
            why = f"no file defines it any more; bring it back, or take it out of the lock: {cure}"
        elif known.definition != content:
            why = (
                f"its definition (version {group.version}) is not the one that was approved "
                f"(version {known.version}); read it, then {cure}"
            )
        else:
            return None
        message = f"the group {name!r} is quarantined: {why}"
        place = self.file if group is None else str(group.source)
        return held_back(group, known, message, place)

    def refuse_server(self, server: ServerDefinition, content: str) -> str | None:
        """Return why a server may not be started; None: it may.

        `content` is its `content_hash`.
        """
        known = self.servers.get(server.name)
        cure = f"read it, then `tool-engine lock --approve {SERVER_PREFIX}{server.name}`"
        if self.problem is not None:
            why = self.problem
        elif known is None:
            why = f"it is not in {self.file}; {cure}"
        elif known.definition != content:
            why = f"its definition is not the one that was approved; {cure}"
        else:
            return None
        return f"the server {server.name!r} is quarantined, and does not run: {why}"

    def text(self) -> str:
        lines = [_write_line(self.tools[name]) for name in sorted(self.tools)]
        if self.groups:
            # A lock without groups stays the same text, also for an engine that knows no groups.
            groups = [self.groups[name] for name in sorted(self.groups)]
            lines += ["", "[groups]", *(_said_in_line(each.name, each.fields()) for each in groups)]
        if self.servers:
            servers = [self.servers[name] for name in sorted(self.servers)]
            lines += ["", "[servers]", *map(_write_line, servers)]
        return "\n".join([f"{_HEAD}format = {_FORMAT}", "", "[tools]", *lines, ""])

    def write(self) -> None:
        """Replace the file as a whole; raise LockFileError if that fails."""
        # A link to the file stays a link.
        target = os.path.realpath(self.file)
        try:
            if os.path.lexists(target) and not Path(target).is_file():
                raise _no_file(self.file)
            _write_whole(target, self.text().encode())
        except OSError as error:
            raise LockFileError(f"cannot write {self.file}: {why_unwritten(error)}") from error


def default_lock_file(directory: str) -> str:
    """Return the lock file of a folder, beside it: `tools.lock` for `tools`."""
    path = os.path.normpath(directory)
    if Path(path).name in ("", ".", ".."):
        path = os.path.normpath(Path(directory).absolute())
    return f"{path}.lock"


def content_hash(tool: Definition) -> str:
    """Return a hash of a definition.

    Unlike `tool.definition_hash` it stays the same when a newer engine knows more keys: those that
    hold their default are left out.
    """
    content = {
        key: value for key, value in _without_defaults(tool).items() if key not in _NOT_CONTENT
    }
    if isinstance(tool, Tool) and is_source_name(tool.source):
        # Another executor runs it than that of a file's tool which says the same.
        content["origin"] = tool.origin
    said = _encode_value(content)
    if isinstance(tool, ServerDefinition) and tool.folder:
        # An approval holds wherever the project is checked out.
        said = said.replace(_encode_value(tool.folder)[1:-1], b"${workspaceFolder}")
    return f"sha256:{hashlib.sha256(said).hexdigest()}"


def is_hash(text: str) -> bool:
    return _HASH.fullmatch(text) is not None


def _encode_value(value: Any) -> bytes:
    return msgspec.json.encode(value, order="deterministic")


def _without_defaults(value: Any) -> Any:
    if isinstance(value, msgspec.Struct):
        return {
            name: _without_defaults(item)
            for name, default in _field_defaults(type(value))
            if (item := getattr(value, name)) != default or type(item) is not type(default)
        }
    return [_without_defaults(item) for item in value] if isinstance(value, list | tuple) else value


@cache
def _field_defaults(kind: type[msgspec.Struct]) -> tuple[tuple[str, Any], ...]:
    return tuple(
        (field.name, field.default_factory() if callable(field.default_factory) else field.default)
        for field in msgspec.structs.fields(kind)
    )


def _write_line(tool: LockedTool) -> str:
    values = msgspec.structs.asdict(tool)
    return _said_in_line(values.pop("name"), values)


def _said_in_line(name: str, values: Mapping[str, Any]) -> str:
    said = ", ".join(
        f"{key} = {_quote_value(value)}" for key, value in values.items() if value is not None
    )
    return f"{name if _BARE_KEY.fullmatch(name) else _quote_value(name)} = {{ {said} }}"


def _quote_value(value: Any) -> str:
    # JSON and TOML write texts and lists alike, except for one character that TOML does not
    # allow unescaped.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _parse_lock(
    text: str, file: str
) -> tuple[list[LockedTool], list[LockedGroup], list[LockedTool]]:
    # Loaded on first use: most programs have no lock to read.
    import tomllib

    try:
        content = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise _broken_error(file, str(error)) from error
    if content.get("format") != _FORMAT or type(content["format"]) is not int:
        raise _broken_error(
            file, f"format is {content.get('format')!r}; this engine reads {_FORMAT}"
        )
    tools, groups, servers = (content.get(key, {}) for key in _TABLES)
    are_tables = all(isinstance(table, dict) for table in (tools, groups, servers))
    if not are_tables or not content.keys() <= {"format", *_TABLES}:
        known = "format, [tools], [groups] and [servers]"
        raise _broken_error(file, f"it has {known}, and nothing else")
    return (
        [_locked_tool(name, fields, file) for name, fields in tools.items()],
        [_locked_group(name, fields, file) for name, fields in groups.items()],
        [_locked_tool(name, fields, file) for name, fields in servers.items()],
    )


def _locked_tool(name: str, fields: Any, file: str) -> LockedTool:
    is_table = isinstance(fields, Mapping) and {"version", "definition"} <= fields.keys() <= _FIELDS
    if not is_table or not all(isinstance(value, str) for value in fields.values()):
        raise _broken_error(
            file, f"the line of {name!r} has version, definition, handler and origin, as texts"
        )
    for key in ("definition", "handler"):
        if key in fields and not is_hash(fields[key]):
            raise _broken_error(file, f"{key} of {name!r} is not sha256: and 64 digits")
    return LockedTool(name, **fields)


def _locked_group(name: str, fields: Any, file: str) -> LockedGroup:
    try:
        made = LockedGroup.read(name, fields)
    except ValueError as error:
        raise _broken_error(file, f"the line of the group {name!r}: {error}") from error
    if not is_hash(made.definition):
        raise _broken_error(file, f"definition of the group {name!r} is not sha256: and 64 digits")
    return made


def _broken_error(file: str, why: str) -> LockFileError:
    return LockFileError(
        f"{file} is no lock file: {why}; bring back the file of before, or read all tools and "
        "write it anew with `tool-engine lock`"
    )


def _no_file(file: str) -> LockFileError:
    return LockFileError(f"the lock file {file} is not a file; name another one with --file")


def _write_whole(target: str, data: bytes) -> None:
    folder, name = os.path.split(target)
    # Loaded on first use, here and in `cache_file`: it imports compression.
    tempfile = import_module("tempfile")
    descriptor, draft = tempfile.mkstemp(prefix=f".{name}.", dir=folder)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        Path(draft).chmod(_mode_for(target))
        Path(draft).replace(target)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(draft).unlink()
        raise


def _mode_for(target: str) -> int:
    try:
        return stat.S_IMODE(Path(target).stat().st_mode)
    except OSError:
        return 0o644
