"""Which texts were read before, by the same rules, and which tools came of them?

What a text becomes depends on nothing but the text and the rules, so it is kept by the hash of the
text, in one file for each folder of definitions. The cache is only ever a shorter way to what the
loader would say: nothing in it is run, and whatever is wrong with it is read anew.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, get_type_hints

import msgspec

from tool_engine.catalog.cache_file import SUFFIX, read_cache, write_cache
from tool_engine.catalog.loader import ToolConfigLoader
from tool_engine.errors import DefinitionError, DefinitionProblem
from tool_engine.model.tool import PACKED_FIELDS, Tool, ToolCategory, pack

__all__ = ["AUTO", "MIN_FILES", "CachedLoader", "cache_path", "default_directory"]

AUTO: Final = "auto"
"""Names the directory where this user's caches are kept by custom."""
MIN_FILES: Final = 100
"""A folder of fewer definitions is read as quickly without a cache, and gets none."""

_REBUILT: Final = frozenset({"id", "source", "findings"})
_EMPTY: Final = msgspec.Raw(b"[]")


def default_directory() -> Path | None:
    """Where this user's caches are kept by custom; None when the user has no home."""
    variable = "LOCALAPPDATA" if sys.platform == "win32" else "XDG_CACHE_HOME"
    base = Path(os.environ.get(variable, ""))
    if not base.is_absolute():
        with suppress(RuntimeError):
            base = Path.home() / ("Library/Caches" if sys.platform == "darwin" else ".cache")
    return base / "tool-engine" if base.is_absolute() else None


def cache_path(
    directory: str | None, folder: str, *, recursive: bool, key: str = ""
) -> Path | None:
    """The cache file for the definitions in `folder`; None when they are not cached.

    Args:
        directory: Where cache files are kept; `AUTO`: where they are by custom; None: nowhere.
        folder: The folder of definitions.
        recursive: Whether its sub-folders belong to it.
        key: What else makes other tools of the same texts.
    """
    base = default_directory() if directory == AUTO else directory and Path(directory)
    if not base:
        return None
    place = os.fsencode(f"{Path(folder).resolve()}\n{recursive}\n{key}")
    return base / (hashlib.sha256(place).hexdigest()[:32] + SUFFIX)


class CachedLoader:
    """Loads tools, and knows those of the texts that were loaded before.

    Only within a `session` does it use the cache; at other times it reads every text.

    Args:
        directory: Where cache files are kept, see `cache_path`; None: no cache.
        folder: The folder that the texts come from.
        recursive: Whether its sub-folders belong to it.
        check: Says what else is wrong with a tool.
        check_key: What the answers of `check` depend on, beside the tool and our own code; None:
            they may always be others, and are not kept.
    """

    def __init__(
        self,
        directory: str | None,
        folder: str,
        *,
        recursive: bool = False,
        check: Callable[[Tool], list[DefinitionProblem]] | None = None,
        check_key: Callable[[], str] | None = None,
    ) -> None:
        self._directory = directory
        self._folder = folder
        self._recursive = recursive
        self._check = check
        self._check_key = check_key
        self._loader = ToolConfigLoader()
        self._is_open = False
        self._known: dict[bytes, bytes] = {}
        self._seen: dict[bytes, bytes] = {}

    @contextmanager
    def session(self, count: int) -> Iterator[None]:
        """Uses the cache for the next `count` texts, when they are enough to be worth it.

        Afterwards the cache holds what came of these texts, and nothing else.
        """
        path = None
        if count >= MIN_FILES:
            key = "" if self._check_key is None else self._check_key()
            path = cache_path(self._directory, self._folder, recursive=self._recursive, key=key)
        if path is None:
            yield
            return
        self._known, self._is_open = read_cache(path), True
        try:
            yield
            if self._seen.keys() != self._known.keys():
                write_cache(path, self._seen)
        finally:
            self._known, self._seen, self._is_open = {}, {}, False

    def load_tools(self, text: bytes, source: str) -> list[Tool]:
        """The tools that `text` defines: see `ToolConfigLoader.load_tools`.

        Raises:
            DefinitionError: Something is wrong with one of the definitions.
        """
        if not self._is_open:
            return self._checked(self._loader.load_tools(text, source))
        key = hashlib.sha256(text).digest()
        entry = self._known.get(key)
        tools = None if entry is None else _unpack(entry, source)
        if entry is None or tools is None:
            self._known.pop(key, None)
            tools = self._checked(self._loader.load_tools(text, source))
            entry = _encode([_kept(tool, source) for tool in tools])
        elif self._check_key is None:
            self._checked(tools)
        self._seen[key] = entry
        return tools

    def _checked(self, tools: list[Tool]) -> list[Tool]:
        if self._check is not None:
            problems = [problem for tool in tools for problem in self._check(tool)]
            if problems:
                raise DefinitionError(*problems)
        return tools


class _Form(NamedTuple):
    """How a tool is kept: what its packed fields hold, and not where the text was found."""

    kept: type[msgspec.Struct]
    fields: tuple[str, ...]
    texts: tuple[str, ...]
    """Those of the fields that hold the JSON text of a list or a mapping."""
    decode: Callable[[bytes], list[Any]]


@cache
def _form() -> _Form:
    types = get_type_hints(Tool)
    fields: list[Any] = []
    for field in msgspec.structs.fields(Tool):
        if field.name == "category":
            fields.append((field.name, Literal[tuple(each.value for each in ToolCategory)]))
        elif field.name in PACKED_FIELDS and field.name not in _REBUILT:
            fields.append((field.name, bytes | None, None))
        elif field.name not in _REBUILT:
            fields.append((field.name, types[field.name], field.default))
    fields.append(("findings", tuple[str, ...], ()))
    kept = msgspec.defstruct("_KeptTool", fields, kw_only=True, omit_defaults=True, gc=False)
    return _Form(
        kept,
        kept.__struct_fields__[:-1],
        tuple(PACKED_FIELDS - _REBUILT - {"category"}),
        msgspec.msgpack.Decoder(list[kept]).decode,  # type: ignore[valid-type]
    )


_encode: Final = msgspec.msgpack.encode


def _kept(tool: Tool, source: str) -> msgspec.Struct:
    form = _form()
    values = dict(zip(tool.__struct_fields__, msgspec.structs.astuple(tool), strict=True))
    kept: dict[str, Any] = {name: values[name] for name in form.fields}
    for name in form.texts:
        kept[name] = None if kept[name] is None else bytes(kept[name])
    # A finding begins with the place, which is another when the text is found elsewhere.
    findings = tuple(finding.removeprefix(source) for finding in tool.findings)
    return form.kept(findings=findings, **kept)


def _unpack(entry: bytes, source: str) -> list[Tool] | None:
    """The tools of an entry, as if they had just been read; None when it is no entry."""
    form = _form()
    try:
        return [_tool(form, kept, source) for kept in form.decode(entry)]
    except msgspec.DecodeError:
        return None


def _tool(form: _Form, kept: Any, source: str) -> Tool:
    values = dict(zip(form.fields, msgspec.structs.astuple(kept), strict=False))
    for name in form.texts:
        text = values[name]
        if text is not None:
            values[name] = _EMPTY if text == b"[]" else msgspec.Raw(text)
    values["id"] = kept.name
    values["version"] = sys.intern(kept.version)
    values["source"] = source
    values["findings"] = _EMPTY
    if not kept.findings:
        return Tool(**values)
    values["findings"] = [source + finding for finding in kept.findings]
    return pack(Tool(**values))
