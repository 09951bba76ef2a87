"""Which tools do the added sources give, beside those of files and code?

A name means one tool: code comes before files, files before sources, and of two sources the one
that has the name already, then the one that was added first. The other tool gets the prefix of its
source in front of its name; without one it is left out, which is an error of its source. A source
that fails keeps its last good tools.
"""

from __future__ import annotations

import hashlib
import marshal
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping
from hashlib import blake2b
from itertools import compress, islice
from operator import is_, is_not
from typing import Any, Final

import msgspec

from tool_engine.catalog.importing import read_listed
from tool_engine.catalog.index import ToolIndex
from tool_engine.catalog.loader import ToolConfigLoader, duplicate_error
from tool_engine.errors import ConfigurationError, DefinitionError, DefinitionProblem
from tool_engine.interfaces import ListedTool
from tool_engine.model.foreign import ends_caller
from tool_engine.model.tool import Tool, content_of, is_source_name, pack
from tool_engine.redaction import words_of

MOST_TOOLS: Final = 100_000
"""The most tools of one source: a list that never ends is refused."""
_PLAIN_MARSHAL: Final = 2
"""The last version of the format that does not depend on which values are the same objects."""

Check = Callable[[Tool], list[DefinitionProblem]]
Error = tuple[str, str]


class Reading(msgspec.Struct, frozen=True):
    """What one reading of a source found."""

    tools: Mapping[str, Tool] | None
    """Its tools by name; None: it failed, and they stay as they were."""
    errors: tuple[Error, ...] = ()
    given: dict[str, Tool | ListedTool | bytes] = {}
    """What the tools were made of, for comparison with the next reading: the tool that the source
    gave or, of a mapping, what `_copy_plain` says."""


def read_given(origin: str, items: list[Any], check: Check, before: Reading) -> Reading:
    """Make the engine's tools of what a source gave; may run in a thread.

    A bad one never stops the rest: its name keeps its meaning of `before`.
    """
    changed = _changed_places(items, before)
    if changed is None:
        return _read_anew(origin, items, check, before)
    if not changed:
        return before
    tools, given = dict(before.tools or {}), dict(before.given)
    found = _read_anew(origin, [items[at] for at in changed], check, Reading(tools))
    tools.update(found.tools or {})
    given.update(found.given)
    return Reading(tools, found.errors, given)


def _changed_places(items: list[Any], before: Reading) -> list[int] | None:
    """Return where a list of the same names holds other tools than before; None: read all anew."""
    known = list(before.given.values())
    if not before.tools or before.errors or not len(before.tools) == len(known) == len(items):
        return None
    changed = list(compress(range(len(items)), map(is_not, items, known)))
    names = list(before.given) if changed else []
    is_alike = all(
        isinstance(items[at], Tool | ListedTool) and items[at].name == names[at] for at in changed
    )
    return changed if is_alike else None


def _read_anew(origin: str, items: list[Any], check: Check, before: Reading) -> Reading:
    known, place = before.tools or {}, _place_tool(origin)
    tools: dict[str, Tool] = {}
    given: dict[str, Tool | ListedTool | bytes] = {}
    errors: list[Error] = []
    counts: Counter[str] = Counter()
    for item in items:
        name = ""
        try:
            read, content = (
                (item, item) if isinstance(item, Tool | ListedTool) else _copy_plain(item)
            )
            name = _name_of(read)
            counts[name] += 1
            if name not in known or not _is_same(before.given.get(name), content):
                made = _make_tool(read, place, check)
                tools[name] = known[name] if known.get(name) == made else made
            else:
                tools[name] = known[name]
            if content is not None:
                given[name] = content
        except BaseException as error:  # what a source gives may raise anything when it is read
            if ends_caller(error):
                raise
            errors.append((place, _describe_tool(origin, name, error)))
            if name in known:
                tools[name] = known[name]
    for name in (name for name, count in counts.items() if count > 1 and name in tools):
        # Nothing says which of them is meant: the name keeps its meaning.
        errors.append((place, f"the source {origin!r} gives the tool {name!r} twice; rename one"))
        del tools[name]
        given.pop(name, None)
        if name in known:
            tools[name] = known[name]
    return Reading(tools, tuple(sorted(set(errors))), given)


def _is_same(
    before: Tool | ListedTool | bytes | None, content: Tool | ListedTool | bytes | None
) -> bool:
    """True if two things that a source gave make the same tool, and it is known without making."""
    if isinstance(content, bytes):
        return before == content
    return content is not None and before is content


def _copy_plain(item: Any) -> tuple[Any, bytes | None]:
    """Return a copy of a definition and what sets it apart; None: it has odd values.

    The source may write in it meanwhile. Unlike JSON, `marshal` keeps 1 apart from True and bytes
    from a text, takes no classes of others, and is done in one step of the interpreter.
    """
    try:
        data = marshal.dumps(item, _PLAIN_MARSHAL)
        return marshal.loads(data), blake2b(data, digest_size=16).digest()  # noqa: S302 - just dumped
    except ValueError:
        return item, None


def snapshot(origin: str, items: Any) -> list[Any]:
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


def failed(origin: str, error: BaseException, before: Reading) -> Reading:
    """Return the reading of a source that raised: its tools stay."""
    message = f"the source {origin!r} failed, its tools stay as they were: {words_of(error)}"
    return msgspec.structs.replace(before, tools=None, errors=((_place_tool(origin), message),))


class SourceTools:
    """The tools of all added sources, as the last good readings found them."""

    def __init__(self) -> None:
        self._readings: dict[str, Reading] = {}
        self._merged: dict[str, Tool] = {}
        self._clashes: list[Error] = []
        self._prefixes: dict[str | None, str] = {}
        self._renamed: dict[tuple[str | None, str], tuple[Tool, Tool]] = {}
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
        for name in [name for name in self._merged if name in base]:
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
        """Give each name its tool; a newcomer has the place of its announcement."""
        before, merged = self._merged, dict[str, Tool]()
        losers: list[tuple[Tool, str | None]] = []
        for reading in self._readings.values():
            tools = reading.tools or {}
            chosen = dict(tools)
            for name in merged.keys() & tools.keys():
                holder, earlier, later = before.get(name), merged[name], tools[name]
                is_held = holder is not None and holder.source == later.source
                if is_held and earlier.source != newcomer:
                    losers.append((earlier, later.source))
                else:
                    losers.append((later, earlier.source))
                    del chosen[name]
            merged |= chosen
        self._clashes = []
        for loser, place in losers:
            renamed = self._rename_tool(loser, place, merged)
            if renamed is None:
                self._clashes.append(_describe_clash(loser, place))
            else:
                merged[renamed.name] = renamed
        self._merged = merged

    def _rename_tool(self, tool: Tool, holder: str | None, taken: Container[str]) -> Tool | None:
        """Return a tool under the prefix of its source; None: there is no such name."""
        prefix, key = self._prefixes.get(tool.source), (tool.source, tool.name)
        name = f"{prefix}_{tool.name}"
        if not prefix or name in taken:
            return None
        known = self._renamed.get(key)
        if known is None or known[0] is not tool or known[1].name != name:
            # Kept: what is equal to the tool of before costs nothing.
            known = self._renamed[key] = (tool, _make_renamed(tool, name, holder or "<code>"))
        return known[1]


def _make_renamed(tool: Tool, name: str, holder: str) -> Tool:
    finding = (
        f"{tool.source}: the name {tool.name!r} is of {holder}, so this tool is {name!r} here; "
        "rename one of the two to have another name"
    )
    said = hashlib.sha256(f"{name} {tool.definition_hash}".encode()).hexdigest()
    findings = [*tool.findings, finding]
    return pack(
        msgspec.structs.replace(tool, id=name, name=name, definition_hash=said, findings=findings)
    )


def _name_of(item: Any) -> str:
    if isinstance(item, Tool | ListedTool):
        name: Any = item.name
    elif isinstance(item, Mapping):
        name = item.get("name")
    else:
        raise ConfigurationError(f"a tool is a Tool or a mapping, got {type(item).__name__}")
    return name if isinstance(name, str) else ""


def _make_tool(item: Any, place: str, check: Check) -> Tool:
    if isinstance(item, ListedTool):
        item = read_listed(item)
    if isinstance(item, Tool):
        if not item.name or not isinstance(item.name, str):
            raise ConfigurationError(f"a tool's name must be a non-empty text, got {item.name!r}")
        own = {"id": item.name, "source": place, "once_secret": (), "definition_hash": ""}
        made = pack(item, **own)
        content = content_of(made)
    else:
        made = ToolConfigLoader().from_mapping(item, place)
        content = made.definition_hash.encode()
        msgspec.structs.force_setattr(made, "source", place)
    # What is the same in a file or in another source is run by another executor.
    content_hash = hashlib.sha256(place.encode() + content).hexdigest()
    msgspec.structs.force_setattr(made, "definition_hash", content_hash)
    problems = check(made)
    if problems:
        raise DefinitionError(*problems)
    return made


def _place_tool(origin: str) -> str:
    return f"<{origin}>"


def _describe_tool(origin: str, name: str, error: BaseException) -> str:
    what = f"the tool {name!r}" if name else "a tool"
    # The engine's own words about a definition are shown as they are.
    why = str(error) if isinstance(error, DefinitionError) else words_of(error)
    return f"{what} of the source {origin!r} is left out: {why}"


def _describe_clash(tool: Tool, place: str | None) -> Error:
    mine = str(tool.source)
    return mine, str(duplicate_error(tool.name, mine, [mine, place or "<code>"]))
