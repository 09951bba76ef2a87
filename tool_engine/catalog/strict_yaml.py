"""How is YAML text read so that it can mean only what its author sees?

PyYAML parses, this module constructs. What two readers could understand differently is refused:
duplicate keys, anchors and aliases, merge keys, unknown tags, keys that are not text. Every fault
is a `DefinitionError` with its file, line and column; no YAML exception leaves this module.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple, NoReturn

import yaml

from tool_engine.catalog.document import Document, Path, format_path
from tool_engine.catalog.limits import MAX_BYTES, MAX_DEPTH, MAX_PROBLEMS, MAX_VALUES
from tool_engine.catalog.scalars import UnreadableScalarError, resolve_plain
from tool_engine.errors import DefinitionError, DefinitionProblem

try:
    from yaml._yaml import CParser as _NativeParser
except ImportError:  # pragma: no cover - PyYAML was built without its C parser
    _NativeParser = None  # type: ignore[assignment,misc]

__all__ = [
    "load_all",
    "parse",
]

_BETWEEN_DOCUMENTS: Final = (yaml.StreamStartEvent, yaml.DocumentEndEvent)
_FORBIDDEN: Final = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff\ud800-\udfff]"
)
_FORBIDDEN_VALUE: Final = re.compile("[\x00\ud800-\udfff]")
_CORE: Final = "tag:yaml.org,2002:"
_TAGGED: Final[dict[str, tuple[type, ...]]] = {
    f"{_CORE}int": (int,),
    f"{_CORE}float": (int, float),
    f"{_CORE}bool": (bool,),
    f"{_CORE}null": (type(None),),
}


class _Fault(NamedTuple):
    message: str
    mark: Any
    number: int
    suffix: Path


class _StopReading(Exception):  # noqa: N818 - never leaves this module
    """The rest of the text cannot be read."""


def load_all(text: str | bytes, source: str) -> list[Document]:
    """Reads every document in `text`.

    Args:
        text: At most 1 MiB of YAML 1.2 in UTF-8.
        source: The name that errors give the text, such as its file.

    Returns:
        One `Document` each; none for a text that holds only comments.

    Raises:
        DefinitionError: The text is not strict YAML; lists every fault that was found.

    Example:
        >>> load_all("answer: no", "example.yaml")[0].value
        {'answer': 'no'}
    """
    documents, problems = parse(text, source)
    if problems:
        raise DefinitionError(*problems)
    return documents


def parse(text: str | bytes, source: str) -> tuple[list[Document], list[DefinitionProblem]]:
    """Reads what can be read of `text`, and lists the faults instead of raising them."""
    try:
        decoded = _decode(text, source)
    except DefinitionError as error:
        return [], list(error.problems)
    return _Reader(decoded, source).read()


class _Reader:
    """Builds the documents of one text from the parser's events."""

    def __init__(self, text: str, source: str) -> None:
        self._source = source
        self._text = text
        self._marks: list[Any] = []
        self._faults: list[_Fault] = []
        self._problems: list[DefinitionProblem] = []
        self._next_event: Callable[[], Any] = _event_source(text)

    def read(self) -> tuple[list[Document], list[DefinitionProblem]]:
        documents: list[Document] = []
        try:
            self._read_documents(documents)
        except _StopReading:
            self._report(None)
        except yaml.YAMLError as error:
            self._report(None)
            self._problems.append(_translate(error, self._source))
        return documents, self._problems

    def _read_documents(self, documents: list[Document]) -> None:
        while True:
            event = self._next_event()
            kind = event.__class__
            if kind is yaml.DocumentStartEvent:
                self._marks = []
                if event.version and tuple(event.version) != (1, 2):
                    self._fault("the %YAML directive asks for other rules; remove the line", event)
                document = Document(self._node(self._next_event(), 1), self._marks)
                self._report(document)
                documents.append(document)
            elif kind is yaml.StreamEndEvent:
                return
            elif kind not in _BETWEEN_DOCUMENTS:
                # Going on would never end: the C parser keeps the classes it was first loaded with.
                raise yaml.YAMLError("PyYAML was imported twice in this process; import it once")

    def _node(self, event: Any, depth: int) -> Any:
        self._marks.append(event.start_mark)
        kind = event.__class__
        if kind is yaml.ScalarEvent:
            return self._scalar(event)
        if kind is yaml.AliasEvent:
            self._fault(
                f"the alias *{event.anchor[:80]} is not allowed; write the value out", event
            )
            return None
        if event.anchor is not None:
            self._fault(f"the anchor &{event.anchor[:80]} is not allowed; remove it", event)
        if len(self._marks) > MAX_VALUES:
            self._stop(f"more than {MAX_VALUES} keys and values; no definition needs them", event)
        if depth > MAX_DEPTH:
            self._stop(f"nested more than {MAX_DEPTH} levels deep; make it flatter", event)
        if kind is yaml.MappingStartEvent:
            return self._mapping(event, depth)
        return self._sequence(event, depth)

    def _sequence(self, event: Any, depth: int) -> list[Any]:
        self._check_tag(event, f"{_CORE}seq")
        items: list[Any] = []
        while (event := self._next_event()).__class__ is not yaml.SequenceEndEvent:
            items.append(self._node(event, depth + 1))
        return items

    def _mapping(self, event: Any, depth: int) -> dict[str, Any]:
        self._check_tag(event, f"{_CORE}map")
        start = len(self._marks) - 1
        mapping: dict[str, Any] = {}
        lines: dict[str, int] = {}
        while (event := self._next_event()).__class__ is not yaml.MappingEndEvent:
            self._marks.append(event.start_mark)
            key = self._key(event)
            if key in mapping:
                self._skip_duplicate(event, key, lines[key], start, depth)
                continue
            lines[key] = event.start_mark.line + 1
            mapping[key] = self._node(self._next_event(), depth + 1)
        return mapping

    def _key(self, event: Any) -> str:
        if event.__class__ is not yaml.ScalarEvent:
            self._stop("a key must be text, not a list, a mapping or an alias", event)
        text: str = event.value
        if event.implicit[0] and event.tag is None and event.anchor is None:
            if text == "<<":
                self._fault("the merge key << is not allowed; write the keys out", event)
            elif not isinstance(self._plain(event), str):
                self._fault(
                    f'the key {text[:80] or "(empty)"} must be text; quote it: "{text[:80]}"', event
                )
            return text
        if not isinstance(self._scalar(event), str):
            self._fault("a key must be text; remove its tag", event)
        return text

    def _skip_duplicate(self, event: Any, key: str, line: int, start: int, depth: int) -> None:
        # The second value is read only to get past it: its marks must not shift the others'.
        del self._marks[-1]
        kept_marks, kept_faults = len(self._marks), len(self._faults)
        self._node(self._next_event(), depth + 1)
        del self._marks[kept_marks:]
        del self._faults[kept_faults:]
        message = f"the key {key[:80]!r} is already given on line {line}; remove one of the two"
        self._add(_Fault(message, event.start_mark, start, (key,)))

    def _scalar(self, event: Any) -> Any:
        if event.tag is None and event.anchor is None:
            if event.implicit[0]:
                return self._plain(event)
        elif not self._is_plain_text(event):
            return self._tagged(event)
        text: str = event.value
        if _FORBIDDEN_VALUE.search(text):
            self._fault("a NUL character or half a surrogate pair cannot be part of a text", event)
        return text

    def _is_plain_text(self, event: Any) -> bool:
        if event.anchor is not None:
            self._fault(f"the anchor &{event.anchor[:80]} is not allowed; remove it", event)
        return event.tag == f"{_CORE}str" or (event.tag is None and not event.implicit[0])

    def _tagged(self, event: Any) -> Any:
        value = self._plain(event)
        if event.tag is None:
            return value
        expected = _TAGGED.get(event.tag)
        if expected is None:
            self._refuse_tag(event)
        elif type(value) not in expected:
            self._fault(f"{event.value[:80]!r} does not fit its tag; remove the tag", event)
        return value

    def _plain(self, event: Any) -> Any:
        try:
            return resolve_plain(event.value)
        except UnreadableScalarError as error:
            self._fault(str(error), event)
            return event.value

    def _check_tag(self, event: Any, allowed: str) -> None:
        if event.tag is not None and event.tag != allowed:
            self._refuse_tag(event)

    def _refuse_tag(self, event: Any) -> None:
        shown = event.tag.replace(_CORE, "!!")
        self._fault(f"the tag {shown[:80]} is not allowed; remove it", event)

    def _fault(self, message: str, event: Any) -> None:
        index = max(len(self._marks) - 1, 0)
        self._add(_Fault(message, event.start_mark, index, ()))

    def _add(self, fault: _Fault) -> None:
        self._faults.append(fault)
        if len(self._faults) + len(self._problems) >= MAX_PROBLEMS:
            raise _StopReading

    def _stop(self, message: str, event: Any) -> NoReturn:
        self._fault(message, event)
        raise _StopReading

    def _report(self, document: Document | None) -> None:
        """Turns faults into problems; a text that was read whole also gives them their paths."""
        for message, mark, number, suffix in self._faults:
            path = (*document.path_at(number), *suffix) if document else ()
            self._problems.append(
                DefinitionProblem(
                    message, self._source, mark.line + 1, mark.column + 1, format_path(path)
                )
            )
        self._faults = []


def _event_source(text: str) -> Callable[[], Any]:
    if _NativeParser is not None:
        native: Callable[[], Any] = _NativeParser(text).get_event
        return native
    portable: Callable[[], Any] = yaml.SafeLoader(text).get_event
    return portable


def _decode(text: str | bytes, source: str) -> str:
    size = len(text) if isinstance(text, bytes) else len(text.encode("utf-8", "surrogatepass"))
    if size > MAX_BYTES:
        raise _error(f"{size} bytes are more than a definition may have ({MAX_BYTES})", source)
    if isinstance(text, bytes):
        text = _decode_bytes(text, source)
    text = text.removeprefix("\ufeff")
    found = _FORBIDDEN.search(text)
    if found is not None:
        raise _error(
            f"the character U+{ord(found.group()):04X} is not allowed; remove it, "
            'or write it as an escape in "double quotes"',
            source,
            text[: found.start()],
        )
    return text


def _decode_bytes(data: bytes, source: str) -> str:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise _error("the file is UTF-16; save it as UTF-8", source, "")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8")
        found = data[error.start]
        raise _error(
            f"byte 0x{found:02X} is not UTF-8; save the file as UTF-8", source, before
        ) from None


def _error(message: str, source: str, before: str | None = None) -> DefinitionError:
    if before is None:
        return DefinitionError(DefinitionProblem(message, source))
    lines = before.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return DefinitionError(DefinitionProblem(message, source, len(lines), len(lines[-1]) + 1))


def _translate(error: yaml.YAMLError, source: str) -> DefinitionProblem:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    context = getattr(error, "context", None)
    problem = getattr(error, "problem", None) or str(error)
    message = f"not valid YAML: {context + ', ' if context else ''}{problem}"
    if "\\t" in problem or "token" in problem:
        message += "; indent with spaces, and quote text that holds special characters"
    if mark is None:
        return DefinitionProblem(message, source)
    return DefinitionProblem(message, source, mark.line + 1, mark.column + 1)
