"""How is YAML read so that no two readers understand it differently?

PyYAML parses, this module constructs. What two readers could understand differently is refused:
duplicate keys, anchors and aliases, merge keys, unknown tags, keys that are not text. Every fault
is a `DefinitionError` with its file, line and column; no YAML exception leaves this module.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import Any, Final, NamedTuple, NoReturn

import yaml

from tool_engine.catalog.limits import MAX_DEPTH, MAX_PROBLEMS, MAX_VALUES, MAX_VALUES_OF_FILE
from tool_engine.catalog.yaml.decoding import decode_text
from tool_engine.catalog.yaml.document import Document, Path, format_path
from tool_engine.catalog.yaml.oddities import Oddities
from tool_engine.catalog.yaml.scalars import MAY_BE_MORE, UnreadableScalarError, resolve_plain
from tool_engine.catalog.yaml.unparsed import find_problem
from tool_engine.errors import DefinitionError, DefinitionProblem

try:
    from yaml._yaml import CParser as _NativeParser
except ImportError:  # pragma: no cover - PyYAML was built without its C parser
    _NativeParser = None  # type: ignore[assignment,misc]

# Looked up for every event: a global name is faster than an attribute.
_SCALAR: Final = yaml.ScalarEvent
_MAPPING_START: Final = yaml.MappingStartEvent
_MAPPING_END: Final = yaml.MappingEndEvent
_SEQUENCE_END: Final = yaml.SequenceEndEvent
_FORBIDDEN_VALUE: Final = re.compile("[\x00\ud800-\udfff]")
_MAY_BE_FORBIDDEN: Final = re.compile(r"\\[0xuU]")
"""An escape that may stand for such a character."""
_CORE: Final = "tag:yaml.org,2002:"
_TAGGED: Final[dict[str, tuple[type, ...]]] = {
    f"{_CORE}int": (int,),
    f"{_CORE}float": (int, float),
    f"{_CORE}bool": (bool,),
    f"{_CORE}null": (type(None),),
}

_known_keys: Final[set[str]] = set()
"""Unquoted keys that are text and nothing else; those of one definition are in most others."""
_MOST_KEYS: Final = 2000
_LONGEST_KEY: Final = 80


class _Fault(NamedTuple):
    message: str
    cure: str
    mark: Any
    number: int
    suffix: Path


class _Anchored(NamedTuple):
    """The value and marks of an anchor; no marks while reading."""

    value: Any
    marks: list[Any] | None


class _StopReading(Exception):  # noqa: N818 - never leaves this module
    """The rest of the text cannot be read."""


def load_documents(
    text: str | bytes, source: str, *, allow_aliases: bool = False
) -> list[Document]:
    """Read every document in `text`, with the place of each value.

    It is at most 1 MiB of YAML 1.2 in UTF-8, and errors call it `source`; comments alone give none.
    With `allow_aliases`, `*name` stands for a copy of the value at `&name`.

    Raises:
        DefinitionError: The text is not strict YAML; lists every fault that was found.
    """
    documents, problems = parse_yaml(text, source, allow_aliases=allow_aliases)
    if problems:
        raise DefinitionError(*problems)
    return documents


def parse_yaml(
    text: str | bytes, source: str, *, allow_aliases: bool = False
) -> tuple[list[Document], list[DefinitionProblem]]:
    """Read what is readable of `text`; return faults, never raise."""
    try:
        decoded = decode_text(text, source)
    except DefinitionError as error:
        return [], list(error.problems)
    oddities = Oddities(decoded, has_anchors=allow_aliases)
    is_odd = oddities.needs_each_event
    found = _Reader(decoded, source, oddities, is_odd=is_odd, allow_aliases=allow_aliases).read()
    documents, problems = found
    if is_odd:
        return found
    if problems:
        oddities = Oddities(decoded, has_anchors=True)
    if oddities.may_be_there and (problems or oddities.may_be_among(documents)):
        # A look at each event takes as long again as the rest, and few texts need it.
        reader = _Reader(decoded, source, oddities, is_odd=True, allow_aliases=allow_aliases)
        return reader.read()
    return found


class _Reader:
    def __init__(
        self, text: str, source: str, oddities: Oddities, *, is_odd: bool, allow_aliases: bool
    ) -> None:
        self._source = source
        self._text = text
        self._allow_aliases = allow_aliases
        self._has_escapes = _MAY_BE_FORBIDDEN.search(text) is not None
        self._has_tabs = "\t" in text
        self._oddities = oddities
        self._is_odd = is_odd
        self._is_simple = not (self._has_escapes or self._has_tabs)
        # Between the signs of a text with tabs there may be some, whatever the keys are.
        self._known_keys: Collection[str] = () if self._has_tabs else _known_keys
        self._marks: list[Any] = []
        self._anchors: dict[str, _Anchored] = {}
        self._faults: list[_Fault] = []
        self._problems: list[DefinitionProblem] = []
        self._values_left = MAX_VALUES_OF_FILE
        self._max_values = MAX_VALUES
        self._next_event: Callable[[], Any] = _event_source(text)

    def read(self) -> tuple[list[Document], list[DefinitionProblem]]:
        documents: list[Document] = []
        try:
            self._read_documents(documents)
        except _StopReading:
            self._report_faults(None)
        except yaml.YAMLError as error:
            self._report_faults(None)
            self._problems.append(find_problem(error, self._text, self._source))
        return documents, self._problems

    def _read_documents(self, documents: list[Document]) -> None:
        while True:
            event = self._next_event()
            kind = event.__class__
            if kind is yaml.DocumentStartEvent:
                documents.append(self._read_document(event))
            elif kind is yaml.StreamEndEvent:
                return
            elif kind is not yaml.StreamStartEvent:
                # Going on would never end: the C parser keeps the classes that it first loaded.
                raise yaml.YAMLError("PyYAML was imported twice in this process")

    def _read_document(self, event: Any) -> Document:
        self._marks, self._anchors = [], {}
        self._max_values = min(MAX_VALUES, self._values_left)
        if event.version and tuple(event.version) != (1, 2):
            self._note_fault("the %YAML directive asks for other rules", "remove the line", event)
        document = Document(self._read_node(self._next_event(), 1), self._marks, self._text)
        end = self._next_event()
        if event.version and not end.explicit:
            message = "a text that begins with %YAML ends with a line ..., and here is none"
            cure = "add the line, or remove %YAML"
            self._add_fault(_Fault(message, cure, end.start_mark, 0, ()))
        self._values_left -= len(self._marks)
        self._report_faults(document)
        return document

    def _read_node(self, event: Any, depth: int) -> Any:
        marks = self._marks
        marks.append(event.start_mark)
        if len(marks) > self._max_values:
            self._stop_at_limit(event)
        if self._is_odd:
            self._check_oddity(event)
        if event.__class__ is not _SCALAR:
            return self._read_compound(event, depth)
        if event.tag is None and event.anchor is None and self._is_simple:
            # Nearly every scalar ends here: this path decides what reading costs.
            text = event.value
            if not event.implicit[0] or (text and text[0] not in MAY_BE_MORE):
                return text
        return self._read_scalar(event)

    def _read_compound(self, event: Any, depth: int) -> Any:
        kind = event.__class__
        if kind is yaml.AliasEvent:
            return self._read_alias(event, depth)
        if depth > MAX_DEPTH:
            self._stop_reading(
                f"nested more than {MAX_DEPTH} levels deep", "make it flatter", event
            )
        start = len(self._marks) - 1
        is_kept = event.anchor is not None and self._open_anchor(event)
        is_mapping = kind is _MAPPING_START
        value = (
            self._read_mapping(event, depth) if is_mapping else self._read_sequence(event, depth)
        )
        if is_kept:
            self._anchors[event.anchor] = _Anchored(value, self._marks[start:])
        return value

    def _read_sequence(self, event: Any, depth: int) -> list[Any]:
        if event.tag is not None and event.tag != f"{_CORE}seq":
            self._refuse_tag(event)
        items: list[Any] = []
        next_event, node = self._next_event, self._read_node
        while (event := next_event()).__class__ is not _SEQUENCE_END:
            items.append(node(event, depth + 1))
        if self._is_odd:
            self._check_oddity(event)
        return items

    def _read_mapping(self, event: Any, depth: int) -> dict[str, Any]:
        if event.tag is not None and event.tag != f"{_CORE}map":
            self._refuse_tag(event)
        start = len(self._marks) - 1
        mapping: dict[str, Any] = {}
        marks: dict[str, Any] = {}
        next_event, node, known = self._next_event, self._read_node, self._known_keys
        while (event := next_event()).__class__ is not _MAPPING_END:
            mark, marked = event.start_mark, event
            self._marks.append(mark)
            is_known = event.__class__ is _SCALAR and event.value in known and event.implicit[0]
            is_known = is_known and event.tag is None and event.anchor is None
            key = event.value if is_known else self._read_key(event)
            if key in marks:
                self._skip_duplicate(mark, key, marks[key].line + 1, start, depth)
                continue
            marks[key] = mark
            value = next_event()
            if not is_known and ":" in key and event.implicit[0]:
                self._check_colon(event, value)
            if self._is_odd:
                self._check_oddity(marked)
            mapping[key] = node(value, depth + 1)
        if self._is_odd:
            self._check_oddity(event)
        return mapping

    def _read_key(self, event: Any) -> str:
        if event.__class__ is not yaml.ScalarEvent:
            message = "a key must be text, not a list, a mapping or an alias"
            cure = "write a text, in quotes where it begins with a brace or a bracket"
            self._stop_reading(message, cure, event)
        text: str = event.value
        if event.implicit[0] and event.tag is None and event.anchor is None:
            if not isinstance(self._read_plain(event), str):
                shown = text[:80]
                self._note_fault(
                    f"the key {shown or '(empty)'} must be text", f'quote it: "{shown}"', event
                )
            elif text == "<<":
                self._note_fault("the merge key << is not allowed", "write the keys out", event)
            elif ":" not in text and not self._has_tabs:
                _keep_key(text)
        elif event.anchor is not None:
            self._note_fault(f"the anchor &{event.anchor[:80]} stands at a key", "remove it", event)
        elif not isinstance(self._read_scalar(event), str):
            self._note_fault("a key must be text", "remove its tag", event)
        return text

    def _check_oddity(self, event: Any) -> None:
        if found := self._oddities.find(event):
            self._note_fault(*found, event)

    def _check_colon(self, key: Any, value: Any) -> None:
        """Refuse `{a:1}`, which is the key `a:1` without a value."""
        if value.__class__ is yaml.ScalarEvent and not value.value and value.implicit[0]:
            name, _, rest = key.value[:80].partition(":")
            cure = f"write a blank after the colon: {name}: {rest}"
            self._note_fault(f"the key {key.value[:80]!r} has no value", cure, key)

    def _skip_duplicate(self, mark: Any, key: str, line: int, start: int, depth: int) -> None:
        # Read the second value only to get past it: its marks must not shift the others'.
        del self._marks[-1]
        kept = len(self._marks)
        self._read_node(self._next_event(), depth + 1)
        del self._marks[kept:]
        self._faults = [fault for fault in self._faults if fault.number < kept]
        message = f"the key {key[:80]!r} is already given on line {line}"
        self._add_fault(_Fault(message, "remove one of the two", mark, start, (key,)))

    def _read_scalar(self, event: Any) -> Any:
        is_kept = event.anchor is not None and self._open_anchor(event)
        value = self._scalar_value(event)
        if is_kept:
            self._anchors[event.anchor] = _Anchored(value, [event.start_mark])
        return value

    def _scalar_value(self, event: Any) -> Any:
        tag = event.tag
        if tag is None:
            if event.implicit[0]:
                return self._read_plain(event)
        elif tag != f"{_CORE}str":
            return self._read_tagged(event)
        text: str = event.value
        if self._has_escapes and _FORBIDDEN_VALUE.search(text):
            message = "a NUL character or half a surrogate pair cannot be part of a text"
            self._note_fault(message, "remove it", event)
        return text

    def _read_tagged(self, event: Any) -> Any:
        value = self._read_plain(event)
        expected = _TAGGED.get(event.tag)
        if expected is None:
            self._refuse_tag(event)
        elif type(value) not in expected:
            self._note_fault(f"{event.value[:80]!r} does not fit its tag", "remove the tag", event)
        return value

    def _read_plain(self, event: Any) -> Any:
        if self._has_tabs and "\t" in event.value:
            cure = "write a blank instead, or quote the text"
            self._note_fault("a tab stands in an unquoted text", cure, event)
        try:
            return resolve_plain(event.value)
        except UnreadableScalarError as error:
            self._note_fault(error.message, error.cure, event)
            return event.value

    def _open_anchor(self, event: Any) -> bool:
        """Begin an anchor's value; return True if aliases may use it."""
        shown = f"the anchor &{event.anchor[:80]}"
        if not self._allow_aliases:
            self._note_fault(
                f"{shown} is not allowed", "remove it, or quote a text that begins with &", event
            )
        elif event.anchor in self._anchors:
            self._note_fault(f"{shown} is given twice", "rename one of the two", event)
        else:
            self._anchors[event.anchor] = _Anchored(None, None)
            return True
        return False

    def _read_alias(self, event: Any, depth: int) -> Any:
        """Return a copy of the alias's value: each has one place."""
        shown = f"the alias *{event.anchor[:80]}"
        anchored = self._anchors.get(event.anchor)
        if not self._allow_aliases:
            self._note_fault(
                f"{shown} is not allowed",
                "write the value out, or quote a text that begins with *",
                event,
            )
        elif anchored is None:
            self._note_fault(f"{shown} names nothing above it", "write the value out", event)
        elif anchored.marks is None:
            self._note_fault(f"{shown} stands inside what it names", "write the value out", event)
        elif len(self._marks) + len(anchored.marks) > self._max_values:
            self._stop_at_limit(event)
        else:
            self._marks += anchored.marks[1:]
            return self._copy_value(anchored.value, event, depth)
        return None

    def _copy_value(self, value: Any, event: Any, depth: int) -> Any:
        if not isinstance(value, dict | list):
            return value
        if depth > MAX_DEPTH:
            self._stop_reading(
                f"nested more than {MAX_DEPTH} levels deep", "make it flatter", event
            )
        if isinstance(value, list):
            return [self._copy_value(item, event, depth + 1) for item in value]
        return {key: self._copy_value(item, event, depth + 1) for key, item in value.items()}

    def _refuse_tag(self, event: Any) -> None:
        shown = event.tag.replace(_CORE, "!!")
        self._note_fault(
            f"the tag {shown[:80]} is not allowed",
            "remove it, or quote a text that begins with !",
            event,
        )

    def _note_fault(self, message: str, cure: str, event: Any) -> None:
        index = max(len(self._marks) - 1, 0)
        self._add_fault(_Fault(message, cure, event.start_mark, index, ()))

    def _add_fault(self, fault: _Fault) -> None:
        self._faults.append(fault)
        if len(self._faults) + len(self._problems) >= MAX_PROBLEMS:
            raise _StopReading

    def _stop_reading(self, message: str, cure: str, event: Any) -> NoReturn:
        self._note_fault(message, cure, event)
        raise _StopReading

    def _stop_at_limit(self, event: Any) -> NoReturn:
        if self._max_values == MAX_VALUES:
            self._stop_reading(
                f"more than {MAX_VALUES} keys and values in one definition", "cut it", event
            )
        message = f"more than {MAX_VALUES_OF_FILE} keys and values in one file"
        self._stop_reading(message, "split it", event)

    def _report_faults(self, document: Document | None) -> None:
        """Turn faults into problems, with paths where the whole text was read."""
        if not self._faults:
            return
        paths = document.paths_at(fault.number for fault in self._faults) if document else {}
        for message, cure, mark, number, suffix in self._faults:
            path = format_path((*paths[number], *suffix)) if document else ""
            self._problems.append(
                DefinitionProblem(
                    message=f"{message}; {cure}",
                    file=self._source,
                    line=mark.line + 1,
                    column=mark.column + 1,
                    path=path,
                    cure=cure,
                )
            )
        self._faults = []


def _keep_key(key: str) -> None:
    if len(_known_keys) < _MOST_KEYS and len(key) <= _LONGEST_KEY:
        _known_keys.add(key)


def _event_source(text: str) -> Callable[[], Any]:
    if _NativeParser is not None:
        native: Callable[[], Any] = _NativeParser(text).get_event
        return native
    portable: Callable[[], Any] = yaml.SafeLoader(text).get_event
    return portable
