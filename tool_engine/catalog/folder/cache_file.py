"""In which form does a cache keep the tools of a text, safe in a lost, damaged or forged file?

A cache file carries the version of the rules that made it and a checksum of all that it holds. One
that is not exactly as it was written counts as empty, and so does one that another user could have
written. It is replaced as a whole, so that a reader never sees half of it.
"""

from __future__ import annotations

import hashlib
import os
import stat
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, NotRequired, TypedDict, get_type_hints

import msgspec

from tool_engine.logger import get_logger
from tool_engine.model.tool import PACKED_FIELDS, Tool, ToolCategory, pack_tool
from tool_engine.visible import escape_hidden

SUFFIX: Final = ".tools"
MAX_SIZE: Final = 256 * 1024 * 1024
"""Bytes in one cache file; what does not fit is read anew each time."""
MAX_FILES: Final = 32
"""Cache files in one directory; those unused for longest go."""
_MAGIC: Final = b"tool-engine cache 1\n"
_DIGEST: Final = 32
_PARTIAL: Final = ".partial"
_ABANDONED: Final = 3600.0
"""Seconds after which the file of a writer that never finished is removed."""
_WRITABLE_BY_OTHERS: Final = 0o022
_OVERHEAD: Final = 16
"""Bytes at most that MessagePack adds to an entry."""
_LIBRARIES: Final = ("PyYAML", "jsonschema", "jsonschema-rs", "msgspec")
_PACKAGE: Final = Path(__file__).parents[2]
_LOADED_AT: Final = time.time()
_log = get_logger(__name__)
_decode: Final = msgspec.msgpack.Decoder(dict[bytes, bytes]).decode
_REBUILT: Final = frozenset({"id", "source", "findings", "once_secret"})
_TEXTS: Final = tuple(sorted(PACKED_FIELDS - _REBUILT - {"category"}))
"""The fields that hold the JSON text of a list or a mapping."""
_EMPTY: Final = msgspec.Raw(b"[]")
_EMPTY_LISTS: Final = {"examples": _EMPTY, "tests": _EMPTY, "findings": _EMPTY}
"""Fields that are not kept when empty, as most are, and their value then."""


def read_cache(path: Path) -> dict[bytes, bytes]:
    """Return the entries of a cache file, none if unusable."""
    try:
        entries = _decode_entries(_read_own(path))
        os.utime(path)  # It was used: `_trim` takes others first.
    except (OSError, ValueError, ImportError) as error:
        _log.debug("cache_not_read", file=str(path), error=str(error))
        return {}
    return entries


def write_cache(path: Path, entries: Mapping[bytes, bytes]) -> None:
    """Replace the cache file as a whole, or ignore a failure.

    Nothing is written for no entries: an old file stays until it is trimmed.
    """
    try:
        body = msgspec.msgpack.encode(_bound_entries(entries))
        data = b"".join((_MAGIC, rules_version(), hashlib.sha256(body).digest(), body))
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _replace_file(path, data)
        _trim_directory(path.parent)
    except (OSError, ImportError) as error:
        _log.debug("cache_not_written", file=str(path), error=str(error))


@cache
def rules_version() -> bytes:
    """Return a hash of all code that turns texts into tools.

    Raises:
        OSError: The package's own files cannot be read, or are not the ones that run here.
        ImportError: A library does not report its version.
    """
    version = import_module("importlib.metadata").version
    digest = hashlib.sha256(sys.version.encode())
    for library in _LIBRARIES:
        digest.update(f"\n{library} {version(library)}".encode())
    for file in _own_files():
        # A package installed meanwhile is not the one that this process imported.
        if file.stat().st_ctime > _LOADED_AT:
            raise OSError(f"{file} changed after it was imported; start anew")
        content = file.read_bytes()
        digest.update(f"\n{file.name} {len(content)}\n".encode() + content)
    return digest.digest()


def _raise_error(error: OSError) -> None:
    raise error


def _own_files() -> Iterator[Path]:
    yield _PACKAGE / "errors.py"
    # The executors also judge a definition.
    for room in ("catalog", "executors", "model"):
        for folder, subfolders, names in os.walk(_PACKAGE / room, onerror=_raise_error):
            subfolders[:] = sorted(name for name in subfolders if name != "__pycache__")
            yield from (Path(folder, name) for name in sorted(names))


def _read_own(path: Path) -> bytes:
    # Without O_NONBLOCK, opening a named pipe waits for a writer.
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    with os.fdopen(descriptor, "rb") as file:
        state = os.fstat(descriptor)
        if not stat.S_ISREG(state.st_mode) or state.st_size > MAX_SIZE:
            raise ValueError("it is no file of ours")
        if os.name == "posix" and (
            state.st_uid != os.geteuid() or state.st_mode & _WRITABLE_BY_OTHERS
        ):
            raise ValueError("another user may have written it")
        return file.read(state.st_size)


def _decode_entries(data: bytes) -> dict[bytes, bytes]:
    """Decode a cache file; raise ValueError for other rules or damage."""
    start = len(_MAGIC) + 2 * _DIGEST
    body = memoryview(data)[start:]
    if data[: len(_MAGIC) + _DIGEST] != _MAGIC + rules_version():
        raise ValueError("it was made by other rules")
    if data[start - _DIGEST : start] != hashlib.sha256(body).digest():
        raise ValueError("it is damaged")
    return _decode(body)


def _bound_entries(entries: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
    kept: dict[bytes, bytes] = {}
    size = len(_MAGIC) + 2 * _DIGEST
    for key, entry in entries.items():
        size += len(key) + len(entry) + _OVERHEAD
        if size > MAX_SIZE:
            break
        kept[key] = entry
    return kept


def _replace_file(path: Path, data: bytes) -> None:
    descriptor, name = import_module("tempfile").mkstemp(_PARTIAL, dir=path.parent)
    partial = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        partial.replace(path)
    except BaseException:
        with suppress(OSError):
            partial.unlink()
        raise


def _trim_directory(directory: Path) -> None:
    """Remove the files unused for longest, and those of killed writers."""
    found: list[tuple[float, Path]] = []
    for file in directory.iterdir():
        if file.suffix not in (SUFFIX, _PARTIAL):
            continue
        # Another process may be trimming too.
        with suppress(FileNotFoundError):
            age = time.time() - file.lstat().st_mtime
            if file.suffix == SUFFIX:
                found.append((age, file))
            elif age > _ABANDONED:
                file.unlink()
    for _, file in sorted(found)[MAX_FILES:]:
        file.unlink(missing_ok=True)


def entry_of(tools: list[Tool], source: str) -> bytes:
    return msgspec.msgpack.encode([_cached_values(tool, source) for tool in tools])


def tools_of(entry: bytes, source: str) -> list[Tool] | None:
    """Return the tools of an entry; None if it is damaged."""
    try:
        return [_restore_tool(kept, source) for kept in _cached_form().decode(entry)]
    except msgspec.DecodeError:
        return None


@cache
def _blank_tool() -> Tool:
    values: dict[str, Any] = dict(_EMPTY_LISTS)
    values |= {each.name: "" for each in msgspec.structs.fields(Tool) if each.required}
    blank: Tool = Tool(**values)
    return blank


class _Form(NamedTuple):
    """How a tool is kept: its packed fields, without its file."""

    defaults: dict[str, Any]
    """The fields that are kept, each with the value that it has where it is not kept."""
    decode: Callable[[bytes], list[dict[str, Any]]]


@cache
def _cached_form() -> _Form:
    types = get_type_hints(Tool)
    kinds: dict[str, Any] = {"findings": NotRequired[list[str]]}
    defaults: dict[str, Any] = {}
    for field in msgspec.structs.fields(Tool):
        if field.name in _REBUILT:
            continue
        kind = bytes if field.name in _TEXTS else types[field.name]
        if field.name == "category":
            kind = Literal[tuple(each.value for each in ToolCategory)]
        kinds[field.name] = kind if field.required else NotRequired[kind]
        defaults[field.name] = _EMPTY_LISTS.get(field.name, field.default)
    # A dict becomes the arguments of `Tool` at once, in less time than a struct takes.
    kept: Any = TypedDict("kept", kinds)  # type: ignore[misc]
    decode: Callable[[bytes], Any] = msgspec.msgpack.Decoder(list[kept]).decode
    return _Form(defaults, decode)


def _cached_values(tool: Tool, source: str) -> dict[str, Any]:
    values = dict(zip(tool.__struct_fields__, msgspec.structs.astuple(tool), strict=True))
    kept: dict[str, Any] = {}
    for name, default in _cached_form().defaults.items():
        if values[name] != default:
            kept[name] = bytes(values[name]) if name in _TEXTS else values[name]
    if tool.findings:
        # A finding begins with the file's path, which another file of the same text has not.
        kept["findings"] = [each.removeprefix(escape_hidden(source)) for each in tool.findings]
    return kept


def _restore_tool(kept: dict[str, Any], source: str) -> Tool:
    for name in _TEXTS:
        text = kept.get(name)
        if text is not None:
            kept[name] = _EMPTY if text == b"[]" else msgspec.Raw(text)
    kept["id"] = kept["name"]
    kept["version"] = sys.intern(kept["version"])
    kept["source"] = source
    findings = kept.pop("findings", None)
    # A copy of a blank tool, which is checked for no unknown fields: that takes as long again.
    tool: Tool = msgspec.structs.replace(_blank_tool(), **kept)
    if findings is None:
        return tool
    placed = [escape_hidden(source) + each for each in findings]
    return pack_tool(msgspec.structs.replace(tool, findings=placed))
