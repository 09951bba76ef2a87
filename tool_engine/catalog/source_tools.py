"""Which tools do the added sources give, beside those of files and code?

A name means one tool: code comes before files, files before sources, and of two sources the one
that has the name already, then the one that was added first. The other tool gets the prefix of its
source in front of its name; without one it is left out, which is an error of its source. Of sources
that all have a prefix each tool gets it, so that no name depends on which of them is there. A
source that fails keeps its last good tools.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping
from hashlib import blake2b
from importlib import import_module
from itertools import chain, compress, islice
from operator import is_, is_not
from typing import Any, Final

import msgspec

from tool_engine.catalog.importing import read_listed
from tool_engine.catalog.index import ToolIndex
from tool_engine.catalog.loader import duplicate_error
from tool_engine.catalog.source_names import make_prefixed, make_renamed
from tool_engine.errors import (
    ConfigurationError,
    DefinitionError,
    DefinitionProblem,
    ToolEngineError,
)
from tool_engine.interfaces import ListedTool
from tool_engine.interfaces.catalog_source import CODE_PLACE
from tool_engine.model.foreign import ends_caller
from tool_engine.model.json.data import Data
from tool_engine.model.tool import Tool, content_of, is_source_name, pack_tool
from tool_engine.redaction import shorten_words, words_of

MOST_TOOLS: Final = 100_000
"""The most tools of one source: a list that never ends is refused."""
_PART: Final = 16
"""How many items are compared at once: those of a large list hold other threads no longer."""

Check = Callable[[Tool], list[DefinitionProblem]]
Error = tuple[str, str]


class _Part(msgspec.Struct, frozen=True):
    """Some items that stood one after another in what a source gave."""

    mark: bytes | tuple[int, ...] | None = None
    """What `_mark_part` says of them; None: they are read one by one."""
    names: tuple[str, ...] = ()


class Reading(msgspec.Struct, frozen=True):
    """What one reading of a source found."""

    tools: Mapping[str, Tool] | None
    """Its tools by name; None: it failed, and they stay as they were."""
    errors: tuple[Error, ...] = ()
    given: dict[str, Tool | ListedTool | bytes] = {}
    """What the tools were made of, for comparison with the next reading: the tool that the source
    gave or the digest of a mapping."""
    parts: tuple[_Part, ...] = ()
    """The same for comparison of many at once."""


class SourceState(msgspec.Struct, Data, frozen=True):
    """A source that was added, and what its last reading found."""

    origin: str
    tools: int
    """The tools that it gives, as its last good reading found them."""
    is_read: bool
    """False: no reading was good so far."""
    errors: tuple[str, ...] = ()
    """What was wrong in the last reading."""


def read_given(origin: str, items: list[Any], check: Check, before: Reading) -> Reading:
    """Make the engine's tools of what a source gave; may run in a thread.

    A bad one never stops the rest: its name keeps its meaning of `before`.
    """
    reader = _Reader(origin, check, before)
    for number, start in enumerate(range(0, len(items), _PART)):
        reader.take_part(number, items[start : start + _PART])
    return reader.end_reading()


class _Reader:
    """One reading of a source; makes only what was not given before."""

    def __init__(self, origin: str, check: Check, before: Reading) -> None:
        # By name: engines without sources may have all of their tools from a cache.
        self._building: Any = import_module("tool_engine.catalog.definition.building")
        self._plain: Any = import_module("tool_engine.catalog.definition.plain_data")
        self._origin = origin
        self._place = _place_tool(origin)
        self._check = check
        self._known = before.tools or {}
        self._before = before
        self._tools: dict[str, Tool] = {}
        self._given: dict[str, Tool | ListedTool | bytes] = {}
        self._errors: list[Error] = []
        self._parts: list[_Part] = []

    def take_part(self, number: int, items: list[Any]) -> None:
        """Take over what is as it was at this place, and read the rest."""
        mark, parts = _mark_part(items), self._before.parts
        if mark is not None and number < len(parts) and mark == parts[number].mark:
            part = parts[number]
        else:
            wrong = len(self._errors)
            names = tuple(map(self._take_item, items))
            # What was wrong may be right next time: what checks it may be another.
            part = _Part(mark if len(self._errors) == wrong else None, names)
        self._parts.append(part)

    def _take_item(self, item: Any) -> str:
        """Make the tool of one item, unless it is known, and return its name."""
        name = ""
        try:
            is_tool = isinstance(item, Tool | ListedTool)
            written = None if is_tool else self._plain.write_plain(item)
            content = item if is_tool else written and _digest_data(written[0])
            # The source may write in it meanwhile.
            plain = None if written is None else written[1]
            name = _name_of(item if plain is None else plain)
            if not self._is_known(name, content):
                made = self._make_tool(item, plain)
                self._tools[name] = self._known[name] if self._known.get(name) == made else made
            else:
                self._tools[name] = self._known[name]
            if content is not None:
                self._given[name] = content
        except BaseException as error:  # what a source gives may raise anything when it is read
            if ends_caller(error):
                raise
            words = _describe_tool(self._origin, name, error)
            if isinstance(item, ListedTool) and item.fault and item.place != CODE_PLACE:
                words = f"{item.place}: {item.fault}"
            self._errors.append((self._place, words))
            if name in self._known:
                self._tools[name] = self._known[name]
        return name

    def _make_tool(self, item: Any, plain: Any) -> Tool:
        """Make the tool of an item, or of a copy of it in plain data."""
        if isinstance(item, Tool | ListedTool):
            made = _take_tool(
                read_listed(item) if isinstance(item, ListedTool) else item, self._place
            )
            if problems := self._check_placed(made):
                raise DefinitionError(*problems)
            content = content_of(made)
        else:
            read = self._building.tool_of_mapping if plain is None else self._building.tool_of_plain
            made = read(item if plain is None else plain, self._place, check=self._check_placed)
            content = made.definition_hash.encode()
        change = msgspec.structs.force_setattr
        change(made, "source", self._place)
        # What is the same in a file or in another source is run by another executor.
        content_hash = hashlib.sha256(self._place.encode() + content).hexdigest()
        change(made, "definition_hash", content_hash)
        return made

    def _check_placed(self, tool: Tool) -> list[DefinitionProblem]:
        msgspec.structs.force_setattr(tool, "source", self._place)
        return self._check(tool)

    def _add_kept(self) -> None:
        """Put what is as it was among what was made, in the order of the source."""
        before, tools, given = self._before, self._tools, self._given
        names = [part.names for part in self._parts]
        is_same = names == [part.names for part in before.parts]
        # What came back has no place among those of before.
        if is_same and len(self._known) == sum(map(len, names)):
            self._tools, self._given = {**self._known, **tools}, {**before.given, **given}
            return
        for found, known in ((tools, self._known), (given, before.given)):
            made = dict(found)
            found.clear()
            found |= {
                name: made[name] if name in made else known[name]
                for name in chain.from_iterable(names)
                if name in made or name in known
            }

    def _is_known(self, name: str, content: Tool | ListedTool | bytes | None) -> bool:
        """Return True if the tool of this name was made of the same."""
        if content is None or name not in self._known:
            return False
        before = self._before.given.get(name)
        return before == content if isinstance(content, bytes) else before is content

    def end_reading(self) -> Reading:
        """Return what was found, without what has a name twice."""
        self._add_kept()
        twice: set[str] = set()
        if sum(len(part.names) for part in self._parts) != len(self._tools):
            counts = Counter(name for part in self._parts for name in part.names)
            twice = {name for name, count in counts.items() if count > 1 and name}
        for name in twice:
            # Nothing says which of them is meant: the name keeps its meaning.
            message = f"the source {self._origin!r} gives the tool {name!r} twice; rename one"
            self._errors.append((self._place, message))
            self._given.pop(name, None)
            if name in self._known:
                self._tools[name] = self._known[name]
            else:
                self._tools.pop(name, None)
        parts = (part if twice.isdisjoint(part.names) else _Part() for part in self._parts)
        return Reading(self._tools, tuple(sorted(set(self._errors))), self._given, tuple(parts))


def _mark_part(items: list[Any]) -> bytes | tuple[int, ...] | None:
    """Return what sets these items apart from all others; None: nothing that is quick.

    Of tools it is which objects they are: `Reading.given` keeps them, so that no other gets their
    place in memory. A mapping may have been written in since, so its content counts.
    """
    if all(item.__class__ in (Tool, ListedTool) for item in items):
        return tuple(map(id, items))
    try:
        # Another class that says the same, such as a tuple for a list, makes the same tool.
        return _digest_data(msgspec.msgpack.encode(items))
    except BaseException as error:  # what a source gives may raise anything when it is read
        if ends_caller(error):
            raise
        return None


def _digest_data(data: bytes) -> bytes:
    return blake2b(data, digest_size=16).digest()


def take_snapshot(origin: str, items: Any) -> list[Any]:
    """Return what a source gave as a list that no longer changes.

    Raises:
        ConfigurationError: It is no list of tools, or too long.
    """
    if isinstance(items, str | bytes | Mapping) or not isinstance(items, Iterable):
        raise ConfigurationError(
            f"read_tools of the source {origin!r} must return an iterable of tools, "
            f"got {type(items).__name__}"
        )
    found = list(islice(items, MOST_TOOLS + 1))
    if len(found) > MOST_TOOLS:
        raise ConfigurationError(
            f"the source {origin!r} gives more than {MOST_TOOLS:,} tools; give it by parts, as "
            "several sources"
        )
    return found


def make_failed_reading(origin: str, error: BaseException, before: Reading) -> Reading:
    """Return the reading of a source that raised: its tools stay."""
    # Its kind says nothing to people where the words are the engine's.
    why = shorten_words(str(error)) if isinstance(error, ToolEngineError) else words_of(error)
    place = getattr(error, "place", "")
    what = f"the source {origin!r} failed, its tools stay as they were"
    message = f"{place}: {why}" if place else f"{what}: {why}"
    return msgspec.structs.replace(before, tools=None, errors=((_place_tool(origin), message),))


class SourceTools:
    """The tools of all added sources, as the last good readings found them."""

    def __init__(self) -> None:
        self._readings: dict[str, Reading] = {}
        self._merged: dict[str, Tool] = {}
        self._clashes: list[Error] = []
        self._prefixes: dict[str | None, str] = {}
        self._renamed: dict[tuple[str | None, ...], tuple[Tool, Tool]] = {}
        self._base = self._index = ToolIndex()
        self._laid: dict[str, Tool] = self._merged
        self._shown: dict[str, Tool] = self._merged
        self._taken: list[str] = []

    def __repr__(self) -> str:
        counts = {origin: len(each.tools or ()) for origin, each in self._readings.items()}
        return f"SourceTools({counts})"

    @property
    def origins(self) -> list[str]:
        """The added sources, in the order of their adding."""
        return list(self._readings)

    def list_states(self) -> list[SourceState]:
        """Return what was found in each source, in the order of their adding."""
        return [
            SourceState(
                origin,
                len(each.tools or ()),
                each.tools is not None,
                tuple(message for _, message in each.errors),
            )
            for origin, each in self._readings.items()
        ]

    def gives(self, name: str) -> bool:
        """Return True if a source has a tool of this name, called or left out."""
        return name in self._merged

    def reading_of(self, origin: str) -> Reading:
        return self._readings.get(origin, Reading(None))

    def announce(self, origin: str, prefix: str = "") -> None:
        """Keep a place for a source: it comes before those that are announced later.

        `prefix` stands in front of those of its names that are taken.
        """
        self._readings.setdefault(origin, Reading(None))
        self._prefixes[_place_tool(origin)] = prefix

    def put(self, origin: str, reading: Reading) -> bool:
        """Take in a reading; return True if anything is different."""
        before = self.reading_of(origin)
        is_first, old = before.tools is None, before.tools or {}
        if reading.tools is None:
            reading = msgspec.structs.replace(reading, tools=old)
        self._readings[origin] = reading
        tools = reading.tools or {}
        is_same = len(old) == len(tools) and all(map(is_, tools.values(), map(old.get, tools)))
        if is_first or not is_same:
            self._merge_tools(_place_tool(origin) if is_first else None)
        return is_first or not is_same or before.errors != reading.errors

    def drop(self, origin: str) -> None:
        self._readings.pop(origin, None)
        place = _place_tool(origin)
        self._prefixes.pop(place, None)
        self._renamed = {key: each for key, each in self._renamed.items() if key[0] != place}
        self._merge_tools()
        if not self._readings:
            self._base = self._index = ToolIndex()
            self._laid = self._shown = self._merged
            self._taken = []

    def without_removed(self, index: ToolIndex, present: ToolIndex) -> ToolIndex:
        """Return `index` with what is `present` in place of tools of removed sources."""
        places = {_place_tool(origin) for origin in self._readings}
        gone = {
            tool.name: present.get(tool.name)
            for tool in index
            if is_source_name(tool.source) and tool.source not in places
        }
        return index.with_changes(gone) if gone else index

    def over(self, base: ToolIndex) -> tuple[ToolIndex, list[Error]]:
        """Return `base`, of files and code, with the sources' tools, and what is wrong."""
        if not self._readings:
            return base, []
        if base is not self._base or self._merged is not self._laid:
            self._lay_over(base)
        errors = [error for each in self._readings.values() for error in each.errors]
        errors += self._clashes
        for name in self._taken:
            errors.append(_describe_clash(self._merged[name], base.get_or_raise(name).source))
        return self._index, errors

    def _lay_over(self, base: ToolIndex) -> None:
        merged, taken = self._merged, []
        for name in sorted(self._merged.keys() & base.list_names()):
            place = base.get_or_raise(name).source
            renamed = self._rename_tool(self._merged[name], place, self._merged)
            if renamed is None or renamed.name in base:
                taken.append(name)
            else:
                merged = {**merged, renamed.name: renamed} if merged is self._merged else merged
                merged[renamed.name] = renamed
        if base is self._base:
            # From the last snapshot on: those that follow one another are compared quickly.
            shown, start = self._shown, self._index
            changes = dict[str, Tool | None].fromkeys(shown.keys() - merged.keys())
            old = map(shown.get, merged)
            changes |= compress(merged.items(), map(is_not, merged.values(), old))
        else:
            start, changes = base, dict(merged)
        changes = {name: tool for name, tool in changes.items() if name not in base}
        self._index = start.with_changes(changes) if changes else start
        self._base, self._laid, self._shown, self._taken = base, self._merged, merged, taken

    def _merge_tools(self, newcomer: str | None = None) -> None:
        """Give each name its tool; those that share a name get the prefix of their source.

        A newcomer has the place of its announcement.
        """
        merged: dict[str, Tool] = {}
        shared: dict[str, list[Tool]] = {}
        for reading in self._readings.values():
            tools = dict(reading.tools or {})
            for name in merged.keys() & tools.keys():
                shared.setdefault(name, [merged[name]]).append(tools[name])
            merged |= tools
        losers: list[tuple[Tool, str | None]] = []
        for name, givers in sorted(shared.items()):
            keeper = self._choose_keeper(name, givers, newcomer)
            for tool in givers:
                rival = keeper or next(each for each in givers if each is not tool)
                if tool is not keeper:
                    losers.append((tool, rival.source))
            if keeper is None:
                del merged[name]
            else:
                merged[name] = keeper
        self._clashes = []
        for loser, place in losers:
            renamed = self._rename_tool(loser, place, merged)
            if renamed is None:
                self._clashes.append(_describe_clash(loser, place))
            else:
                merged[renamed.name] = renamed
        self._merged = merged

    def _choose_keeper(self, name: str, givers: list[Tool], newcomer: str | None) -> Tool | None:
        """Return which of the tools keeps a name; None: the name means none of them.

        Where each source has a prefix none keeps it: else it would mean another tool whenever one
        of them is not there.
        """
        plain = [each for each in givers if not self._prefixes.get(each.source)]
        holder = self._merged.get(name)
        for each in plain:
            if each.source == newcomer or (holder is not None and holder.source == each.source):
                return each
        return next(iter(plain), None)

    def _rename_tool(self, tool: Tool, holder: str | None, taken: Container[str]) -> Tool | None:
        """Return a tool under the prefix of its source; None: there is no such name."""
        prefix, key = self._prefixes.get(tool.source, ""), (tool.source, tool.name, holder)
        name = make_prefixed(prefix, tool.name)
        if not prefix or name in taken:
            return None
        known = self._renamed.get(key)
        if known is None or known[0] is not tool or known[1].name != name:
            # Kept: what is equal to the tool of before costs nothing.
            known = self._renamed[key] = (tool, make_renamed(tool, name, holder or "<code>"))
        return known[1]


def _name_of(item: Any) -> str:
    if isinstance(item, Tool | ListedTool):
        name: Any = item.name
    elif isinstance(item, Mapping):
        name = item.get("name")
    else:
        raise ConfigurationError(f"a tool is a Tool or a mapping, got {type(item).__name__}")
    return name if isinstance(name, str) else ""


def _take_tool(tool: Tool, place: str) -> Tool:
    """Return a tool as one of this source."""
    if not tool.name or not isinstance(tool.name, str):
        raise ConfigurationError(f"a tool's name must be a non-empty text, got {tool.name!r}")
    return pack_tool(tool, id=tool.name, source=place, once_secret=(), definition_hash="")


def _place_tool(origin: str) -> str:
    return f"<{origin}>"


def _describe_tool(origin: str, name: str, error: BaseException) -> str:
    what = f"the tool {name!r}" if name else "a tool"
    # The engine's own words are shown as they are.
    why = str(error) if isinstance(error, ToolEngineError) else words_of(error)
    return f"{what} of the source {origin!r} is left out: {why}"


def _describe_clash(tool: Tool, place: str | None) -> Error:
    mine = str(tool.source)
    return mine, str(duplicate_error(tool.name, mine, [mine, place or "<code>"]))
