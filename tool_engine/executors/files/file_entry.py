"""What does a definition's `entry` say about the folder of a file tool, and is it right?

`check_entry` finds every mistake before the first call; `FileEntry` is what the executors read.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from tool_engine.executors.entry_reader import EntryReader, is_filled_text
from tool_engine.executors.files.root import FileRoot
from tool_engine.executors.secrets import SecretPart, read_variable
from tool_engine.executors.templates import ParameterPart, TemplateError, TextTemplate
from tool_engine.model.checks.nearness import suggest_near
from tool_engine.model.tool import is_source_name
from tool_engine.redaction import describe_unfit, describe_value

DEFAULT_MAX_BYTES: Final = 10 * 1024 * 1024
"""The largest file that is read or written, in bytes, unless the definition names another."""
MAX_BYTES_LIMIT: Final = 64 * 1024 * 1024
_USE: Final = "it names the tool's folder"
_ENTRY_KEYS: Final = ("type", "handler", "root", "config")
_CONFIG_KEYS: Final = ("max_bytes", "ignore")
_PARAMETERS: Final[Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "read_file": (("path",), ("offset", "column", "limit", "numbered")),
    "write_file": (
        ("path", "content"),
        ("create_only", "create_folders", "expected_version"),
    ),
    "edit_file": (("path", "old_text", "new_text"), ("replace_all", "expected_version")),
    "read_folder": ((), ("path", "depth", "glob", "limit", "include_ignored")),
    "search_files": (
        ("pattern",),
        (
            "path",
            "glob",
            "literal",
            "ignore_case",
            "context",
            "limit",
            "include_ignored",
        ),
    ),
}
"""Handler -> the parameters that a tool must declare, and those that it may."""


class FileEntry(msgspec.Struct, frozen=True):
    root: TextTemplate
    folder: str | None
    """The definition's folder, which a relative root starts from; None for a tool in code."""
    max_bytes: int
    ignore: tuple[str, ...] | None
    """Globs to leave out of listings and searches; None: the default ones."""

    def open(self) -> FileRoot:
        """Open the root; raise `ToolExecutionError` if its variable is not set."""
        parts = self.root.parts
        text = "".join(
            read_variable(p.name, _USE) if isinstance(p, SecretPart) else str(p) for p in parts
        )
        path = Path(self.folder or Path.cwd(), Path(text).expanduser())
        return FileRoot(os.path.normpath(path), self.folder)


class _Reader(EntryReader[FileEntry]):
    def read(self) -> FileEntry | None:
        entry = self.tool.implementation_config
        self.keys(entry, _ENTRY_KEYS, "entry")
        root = self._read_root(entry.get("root"))
        config = self.config(_CONFIG_KEYS)
        max_bytes = self._max_bytes(config.get("max_bytes", DEFAULT_MAX_BYTES))
        ignore = self._read_ignore(config.get("ignore"))
        self._check_parameters()
        if root is None:
            return None
        source = self.tool.source
        folder = (
            None
            if source is None or is_source_name(source)
            else str(Path(source).absolute().parent)
        )
        return FileEntry(root=root, folder=folder, max_bytes=max_bytes, ignore=ignore)

    def _read_root(self, root: Any) -> TextTemplate | None:
        path = "entry.root"
        if root is None:
            self.problem(
                path, "is missing; write the folder that the tool stays in, such as root: ../data"
            )
            return None
        if not isinstance(root, str) or not root.strip() or "\0" in root:
            self.problem(path, f"must be the path of a folder, got {describe_value(root)}")
            return None
        try:
            template = TextTemplate.parse(root)
        except TemplateError as error:
            self.problem(path, str(error))
            return None
        if any(isinstance(part, ParameterPart) for part in template.parts):
            self.problem(
                path, "must not hold a {parameter}: a call does not choose where the tool stays"
            )
            return None
        if any(part.source == "file" for part in template.secrets):
            self.problem(path, "is a folder's path, not a secret; write it here, or ${env:NAME}")
            return None
        return template

    def _max_bytes(self, value: Any) -> int:
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        if is_whole and 0 < value <= MAX_BYTES_LIMIT:
            return int(value)
        self.problem(
            "entry.config.max_bytes",
            f"must be a whole number between 1 and {MAX_BYTES_LIMIT}, got {describe_value(value)}",
        )
        return DEFAULT_MAX_BYTES

    def _read_ignore(self, globs: Any) -> tuple[str, ...] | None:
        if globs is None:
            return None
        if isinstance(globs, list) and all(map(is_filled_text, globs)):
            return tuple(globs)
        got = describe_unfit(globs, is_filled_text)
        path, example = "entry.config.ignore", "['*.log']"
        self.problem(path, f"must be a list of globs such as {example}, got {got}")
        return None

    def _check_parameters(self) -> None:
        handler = self.tool.handler
        if handler not in _PARAMETERS:
            return
        needed, others = _PARAMETERS[handler]
        declared = {parameter.name for parameter in self.tool.parameters}
        for name in needed:
            if name not in declared:
                self.problem("parameters", f"{handler} needs the parameter {name!r}; declare it")
        for name in sorted(declared.difference(needed, others)):
            known = (*needed, *others)
            hint = suggest_near(name, known) or f"; it reads {', '.join(known)}"
            self.problem(f"parameters.{name}", f"{handler} never reads {name!r}{hint}")


check_entry = _Reader.check
compile_entry = _Reader.compile
