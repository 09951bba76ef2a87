"""What may a source be called, and what may stand before the names of its tools?"""

from __future__ import annotations

import hashlib
import re
from typing import Final

import msgspec

from tool_engine.errors import ConfigurationError
from tool_engine.model.tool import Tool, pack_tool

_ORIGIN: Final = re.compile(r"[a-z][a-z0-9_]*:[^\s<>][^\n\r<>]{0,199}")
_PREFIX: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,31}")
_TAKEN: Final = ("file", "code")
_LONGEST_NAME: Final = 64
"""Characters of a name that every provider of models takes."""
_MARK: Final = 6


def check_origin(origin: object) -> str:
    """Return the origin that a source names.

    Raises:
        ConfigurationError: It is none, such as one of files.
    """
    if not isinstance(origin, str) or _ORIGIN.fullmatch(origin) is None:
        raise ConfigurationError(
            f"a source's origin must be a text of a kind and a name such as 'mcp:github', "
            f"got {origin!r}"
        )
    if origin.partition(":")[0] in _TAKEN:
        raise ConfigurationError(
            f"a source's origin cannot begin with {origin.partition(':')[0]!r}, which stands for "
            f"the engine's own tools, got {origin!r}; take another word, such as 'own:NAME'"
        )
    return str(origin)


def check_prefix(origin: str, prefix: object) -> str:
    """Return the prefix of a source.

    Raises:
        ConfigurationError: No tool's name can begin with it.
    """
    if not isinstance(prefix, str) or (prefix and _PREFIX.fullmatch(prefix) is None):
        raise ConfigurationError(
            f"the prefix of the source {origin!r} must be a letter or _, then letters, digits, _ "
            f". and -, at most 32 characters, or empty; got {prefix!r}"
        )
    return prefix


def make_prefixed(prefix: str, name: str) -> str:
    """Return a name behind a prefix; a long one is cut, with a mark of its own at the end."""
    whole = f"{prefix}_{name}"
    if len(whole) <= _LONGEST_NAME:
        return whole
    mark = hashlib.sha256(whole.encode()).hexdigest()[:_MARK]
    return f"{whole[: _LONGEST_NAME - _MARK - 1]}_{mark}"


def make_renamed(tool: Tool, name: str, holder: str) -> Tool:
    """Return a tool under another name, since `holder` has its own."""
    finding = (
        f"{tool.source}: the name {tool.name!r} is of {holder}, so this tool is {name!r} here; "
        "rename one of the two to have another name"
    )
    said = hashlib.sha256(f"{name} {tool.definition_hash}".encode()).hexdigest()
    findings = [*tool.findings, finding]
    return pack_tool(
        msgspec.structs.replace(tool, id=name, name=name, definition_hash=said, findings=findings)
    )
