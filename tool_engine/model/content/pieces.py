"""What may a result hold beside data: texts, images, audio, resources and links to them?

Names, fields and JSON forms are those of MCP's content blocks, so that what a server returned goes
through unchanged: https://modelcontextprotocol.io/specification/2025-11-25/server/tools#tool-result
"""

from __future__ import annotations

import base64
import re
from copy import deepcopy
from importlib import import_module
from os import PathLike, fspath
from typing import Any, ClassVar, Final, NoReturn, Self

import msgspec

from tool_engine.errors import ConfigurationError
from tool_engine.model.checks.known_fields import KnownArguments

MOST_BYTES: Final = 10 * 2**20
"""The most bytes of one piece of content: as base64 it still crosses to another process whole."""
_MIME_TYPE: Final = re.compile(r"[\w.+-]+/[\w.+-]+(?:\s*;.*)?", re.ASCII)


class Content(KnownArguments):
    """One piece of content, which never changes."""

    # No structure of msgspec and no dataclass: encoders know those, and would write the fields of
    # what a tool returns where its blocks belong.
    __slots__ = ("_block",)
    type: ClassVar[str] = ""
    """The `type` of its block."""
    _block: dict[str, Any]

    def _hold_block(self, **block: Any) -> None:
        kept = {name: value for name, value in block.items() if value is not None}
        object.__setattr__(self, "_block", {"type": self.type, **kept})

    def __setattr__(self, *_: Any) -> NoReturn:
        raise AttributeError(f"a {type(self).__name__} never changes: make another one")

    __delattr__ = __setattr__

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.to_dict() == self._block

    def __hash__(self) -> int:
        return hash(msgspec.json.encode(self._block))

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle it as its block."""
        return _restore_content, (type(self), self._block)

    @classmethod
    def from_block(cls, block: dict[str, Any]) -> Self:
        """Return the content of a block that is right, with all that stands in it."""
        made = object.__new__(cls)
        object.__setattr__(made, "_block", block)
        return made

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.describe()!r})"

    def describe(self, reason: str = "") -> str:
        """Return a line in brackets that names the content, for readers who are not shown it.

        Args:
            reason: Why they are not.
        """
        return f"[{', '.join(self._list_facts())}{reason and ': '}{reason}]"

    def _list_facts(self) -> list[str]:
        return [self.type]

    def to_dict(self) -> dict[str, Any]:
        """Return the content block as JSON values; bytes are base64."""
        return deepcopy(self._block)


class TextContent(Content):
    """A text.

    Raises:
        ConfigurationError: It is none.
    """

    __slots__ = ()
    type = "text"

    def __init__(self, text: str) -> None:
        self._hold_block(text=_check_text("text", text))

    @property
    def text(self) -> str:
        """The text itself."""
        return str(self._block["text"])


class BinaryContent(Content):
    """What `ImageContent` and `AudioContent` share."""

    __slots__ = ()

    def __init__(self, data: bytes, mime_type: str) -> None:
        kind = _check_mime_type(mime_type)
        if not kind.startswith(f"{self.type}/"):
            cure = "; make a ResourceContent of it" if self.type not in kind else ""
            raise ConfigurationError(
                f"mime_type of {self.type} content begins with '{self.type}/', got {kind!r}{cure}"
            )
        self._hold_block(data=_write_bytes(data), mimeType=kind)

    @classmethod
    def from_file(cls, path: str | PathLike[str], mime_type: str | None = None) -> Self:
        """Read a file, of at most 10 MiB. It blocks: in async code, call it in a thread.

        Args:
            path: The file.
            mime_type: Its type; left out: what its name says.

        Raises:
            ConfigurationError: It is too large, or its name says no type of this kind.
            OSError: It cannot be read.
        """
        return cls(_read_file(path), mime_type or _guess_type(path))

    @property
    def mime_type(self) -> str:
        """Such as `image/png`."""
        return str(self._block["mimeType"])

    @property
    def base64(self) -> str:
        """The bytes as base64."""
        return str(self._block["data"])

    @property
    def data(self) -> bytes:
        """The bytes."""
        return base64.b64decode(self.base64)

    def _list_facts(self) -> list[str]:
        return [self.mime_type, write_size(count_bytes(self.base64))]


class ImageContent(BinaryContent):
    """An image.

    Args:
        data: Its bytes, at most 10 MiB.
        mime_type: Such as `image/png`.

    Raises:
        ConfigurationError: It has no bytes or too many, or the type is none of images.
    """

    __slots__ = ()
    type = "image"


class AudioContent(BinaryContent):
    """A sound, with the arguments of `ImageContent` and a type such as `audio/wav`."""

    __slots__ = ()
    type = "audio"


class ResourceContent(Content):
    """A file or another resource, with its content: a text, or bytes.

    Args:
        uri: What it is called, such as `report://2026/q3` or the address of a page.
        text: Its text.
        data: Its bytes, at most 10 MiB.
        mime_type: Such as `application/pdf`.

    Raises:
        ConfigurationError: It has neither text nor bytes, or both; or a field is wrong.
    """

    __slots__ = ()
    type = "resource"

    def __init__(
        self,
        uri: str,
        *,
        text: str | None = None,
        data: bytes | None = None,
        mime_type: str | None = None,
    ) -> None:
        if (text is None) == (data is None):
            raise ConfigurationError(
                f"the resource {uri!r:.80} has either text or data; give one of them, or make a "
                "ResourceLink of it"
            )
        held: dict[str, Any] = {"uri": _check_text("uri", uri)}
        if mime_type is not None:
            held["mimeType"] = _check_mime_type(mime_type)
        if data is not None:
            held["blob"] = _write_bytes(data)
        else:
            held["text"] = _check_text("text", text)
        self._hold_block(resource=held)

    @classmethod
    def from_file(cls, path: str | PathLike[str], uri: str, mime_type: str | None = None) -> Self:
        """Read the bytes of a file, as `ImageContent.from_file` does.

        Args:
            path: The file.
            uri: What it is called for its readers, who need not know where it is.
            mime_type: Its type; left out: what its name says.
        """
        return cls(uri, data=_read_file(path), mime_type=mime_type or _guess_type(path))

    @property
    def uri(self) -> str:
        """What it is called."""
        return str(self._block["resource"]["uri"])

    @property
    def text(self) -> str | None:
        """Its text; None: it has bytes."""
        text: str | None = self._block["resource"].get("text")
        return text

    @property
    def base64(self) -> str | None:
        """Its bytes as base64; None: it has text."""
        data: str | None = self._block["resource"].get("blob")
        return data

    @property
    def data(self) -> bytes | None:
        """Its bytes; None: it has text."""
        return None if self.base64 is None else base64.b64decode(self.base64)

    @property
    def mime_type(self) -> str | None:
        """Its type, such as `application/pdf`; None: not known."""
        found: str | None = self._block["resource"].get("mimeType")
        return found

    def _list_facts(self) -> list[str]:
        size = None if self.base64 is None else write_size(count_bytes(self.base64))
        return [f"resource {self.uri}", *(each for each in (self.mime_type, size) if each)]


class ResourceLink(Content):
    """The address of a resource, without its content.

    Args:
        uri: Where it is.
        name: What programs call it.
        title: What people call it.
        description: What it is, for models.
        mime_type: Such as `application/pdf`.
        size: Its bytes.

    Raises:
        ConfigurationError: A field is wrong.
    """

    __slots__ = ()
    type = "resource_link"

    def __init__(
        self,
        uri: str,
        name: str,
        *,
        title: str | None = None,
        description: str | None = None,
        mime_type: str | None = None,
        size: int | None = None,
    ) -> None:
        for field, text in (("title", title), ("description", description)):
            if text is not None:
                _check_text(field, text)
        if size is not None and (not isinstance(size, int) or isinstance(size, bool) or size < 0):
            raise ConfigurationError(f"size must be a number of bytes, got {size!r:.80}")
        self._hold_block(
            uri=_check_text("uri", uri),
            name=_check_text("name", name),
            title=title,
            description=description,
            mimeType=None if mime_type is None else _check_mime_type(mime_type),
            size=size,
        )

    @property
    def uri(self) -> str:
        """Where it is."""
        return str(self._block["uri"])

    @property
    def name(self) -> str:
        """What programs call it."""
        return str(self._block["name"])

    @property
    def title(self) -> str | None:
        """What people call it; None: the name."""
        return self._find_text("title")

    @property
    def description(self) -> str | None:
        """What it is, for models."""
        return self._find_text("description")

    @property
    def mime_type(self) -> str | None:
        """Its type, such as `application/pdf`; None: not known."""
        return self._find_text("mimeType")

    @property
    def size(self) -> int | None:
        """Its bytes; None: not known."""
        size: int | None = self._block.get("size")
        return size

    def _find_text(self, name: str) -> str | None:
        value: str | None = self._block.get(name)
        return value

    def _list_facts(self) -> list[str]:
        named = dict.fromkeys(each for each in (self.title, self.name) if each)
        size = None if self.size is None else write_size(self.size)
        rest = [each for each in (self.mime_type, size, self.description) if each]
        return [f"link to {self.uri}", *named, *rest]


def _restore_content(kind: type[Content], block: dict[str, Any]) -> Content:
    return kind.from_block(block)


def count_bytes(data: str) -> int:
    """Return how many bytes a base64 text stands for."""
    return len(data) * 3 // 4 - data[-2:].count("=")


def write_size(size: int) -> str:
    """Return a number of bytes in words, such as `12 KB`."""
    if size < 1_000:
        return f"{size} bytes"
    return f"{size / 1e3:.0f} KB" if size < 999_500 else f"{size / 1e6:.1f} MB"


def _check_text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise ConfigurationError(f"{name} must be a text, got {value!r:.80}")
    return value


def is_mime_type(text: str) -> bool:
    """Return True for the name of a type, such as `image/png`."""
    return _MIME_TYPE.fullmatch(text) is not None


def _check_mime_type(value: object) -> str:
    if not isinstance(value, str) or not is_mime_type(value):
        raise ConfigurationError(f"mime_type must be a type such as image/png, got {value!r:.80}")
    return value


def _write_bytes(data: object) -> str:
    if not isinstance(data, bytes | bytearray | memoryview):
        raise ConfigurationError(f"data must be bytes, got {type(data).__name__}")
    size = memoryview(data).nbytes
    if not 0 < size <= MOST_BYTES:
        raise ConfigurationError(
            f"data must have 1 to {MOST_BYTES:,} bytes, got {write_size(size)}; make it smaller, "
            "or return a ResourceLink to it"
        )
    return base64.b64encode(data).decode("ascii")


def _read_file(path: str | PathLike[str]) -> bytes:
    with open(path, "rb") as file:  # noqa: PTH123 - no call waits for the import of pathlib
        data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise ConfigurationError(
            f"{str(path)!r:.200} has more than {MOST_BYTES:,} bytes; make it smaller, or return a "
            "ResourceLink to it"
        )
    return data


def _guess_type(path: str | PathLike[str]) -> str:
    # By name: few programs need the module, and all would wait for it.
    found: str | None
    found, packed = import_module("mimetypes").guess_type(fspath(path))
    if found is None or packed is not None:
        raise ConfigurationError(
            f"the name of {str(path)!r:.200} says no type; give its mime_type, such as image/png"
        )
    return found
