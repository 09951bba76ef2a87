"""What else is wrong with a definition, behind the mistakes that hide it?

A misspelled key hides what stands under it, and what has no form yet cannot be judged with the
rest. So the mistakes that are known are mended in a copy, which is looked at again. How an author
will mend one is not always known: then it is mended in several ways, and what is not found in all
of them is only a consequence of how it was mended.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import msgspec

from tool_engine.catalog.definition.fault import Fault
from tool_engine.catalog.definition.stand_ins import stand_ins
from tool_engine.catalog.definition.structure import schema_at
from tool_engine.catalog.limits import MAX_PROBLEMS
from tool_engine.catalog.yaml.document import Path, format_path, parse_path
from tool_engine.errors import DefinitionProblem
from tool_engine.model.json.plain import copy_json

Found = Fault | DefinitionProblem
"""What is wrong: with the definition itself, or with what runs it."""

_LARGEST: Final = 64 * 1024
"""Bytes of a definition that is looked at more than once."""
_MOST_WAYS: Final = 8
"""Options of one key, such as the types of an entry."""
_MOST_ROUNDS: Final = 8
_ABSENT: Final = object()
_QUOTED: Final = re.compile(r"'([^']*)'")
_HANDLER: Final = re.compile(r"type: builtin, handler: (\w+)")
_WORD: Final = re.compile(r"\w+")
_NEAR: Final = re.compile(r"did you mean '([^']*)'\?")


def list_mistakes(
    definition: Any,
    faults: list[Fault],
    find_faults: Callable[[Any], list[Fault]],
    check: Callable[[Any], list[DefinitionProblem]] | None = None,
) -> list[Found]:
    """Return what is wrong with a definition, each mistake once and without what follows from it.

    Args:
        definition: Plain data.
        faults: What is wrong with it as it stands.
        find_faults: Returns that of a definition.
        check: Returns what an engine would refuse of a definition without such faults.
    """
    if not faults and check is None:
        return []
    if len(msgspec.json.encode(definition)) > _LARGEST:
        return [*faults] if faults or check is None else [*check(definition)]
    found: dict[Found, None] | None = None
    way, ways = 0, 1
    while way < ways:
        copy = _MendedCopy(definition, way, find_faults)
        copy.look(faults, check)
        seen = copy.found
        found = seen if found is None else {each: None for each in found if each in seen}
        way, ways = way + 1, min(copy.ways, _MOST_WAYS)
    return list(found or ())


class _MendedCopy:
    """A copy of a definition, in which each mistake is mended as it is found."""

    def __init__(
        self, definition: Any, way: int, find_faults: Callable[[Any], list[Fault]]
    ) -> None:
        self.found: dict[Found, None] = {}
        self.ways = 1
        """In how many ways the mistake that may be mended in the most ways may be mended."""
        self._value = copy_json(definition)
        self._way = way
        self._find_faults = find_faults
        self._names: dict[Path, str] = {}
        """The renamed keys, as they are written."""
        self._moved: dict[Path, Path] = {}
        """Where a key stands now -> where it is written."""
        self._made: set[Path] = set()
        """The places of which it is not known what will stand there."""
        self._shortened: set[Path] = set()
        """Mappings from which something was taken: whether they are empty is not known."""
        self._holders: set[Path] = set()
        """Mappings that were made for what was moved into them."""
        self._doubtful: set[str] = set()
        """Words that may yet mean another thing: a parameter of which something is wrong."""
        self._knows_names = True
        """False when a parameter may have any name."""

    def look(
        self, faults: list[Fault], check: Callable[[Any], list[DefinitionProblem]] | None
    ) -> None:
        """Note what is wrong, of which `faults` is known."""
        for _ in range(_MOST_ROUNDS):
            next_ones = [*_choose_first(faults)]
            for fault in next_ones:
                self._note_fault(fault)
                self._mend_form(fault)
            if len(self.found) >= MAX_PROBLEMS:
                return
            if not next_ones:
                break
            faults = self._find_faults(self._value)
        for fault in faults if not any(fault.rule for fault in faults) else ():
            self._note_fault(fault)
            self._set_aside(fault.path)
        is_whole = all(
            fault.path[:1] == ("entry",) and not fault.rule
            for fault in (self._find_faults(self._value) if faults else ())
        )
        if check is not None and is_whole and isinstance(self._value, dict):
            self._ask_engine(check)

    def _note_fault(self, fault: Fault) -> None:
        place = (*fault.path, fault.key) if fault.key and not fault.at_key else fault.path
        if not self._is_made(place) and place not in self._shortened:
            path = self._path_as_written(fault.path)
            self.found[fault._replace(path=path, key="", rule=())] = None

    def _mend_form(self, fault: Fault) -> None:
        """Mend what the structure of definitions does not allow."""
        path, holder = fault.path, self._value_at(fault.path[:-1])
        if fault.key and not fault.at_key:
            options = stand_ins(schema_at(fault.rule), self._new_word())
            self._put_value((*path, fault.key), options)
        elif fault.at_key and not (isinstance(holder, dict) and path[-1] in holder):
            return  # another mistake at the same place is mended already
        elif fault.key == "kind" and "kind" not in holder and self._choose_option((False, True)):
            self._value = {"kind": "group", **self._value}
        elif fault.at_key and fault.key and fault.key not in holder:
            self._rename_key(path, fault.key)
        elif fault.place and self._value_at(fault.place) is None:
            self._move_key(path, fault.place)
        elif fault.at_key:
            self._doubt_words(holder.pop(path[-1]))
            self._shortened.add(path[:-1])
        elif fault.nearest:
            self._put_value(path, [fault.nearest], is_known=True)
        elif path == ("entry", "type") and (handler := _HANDLER.search(fault.cure)):
            holder |= {"type": "builtin", "handler": holder.get("handler", handler[1])}
        elif path:
            may_lack = [_ABSENT] if isinstance(holder, dict) else []
            self._put_value(path, [*may_lack, *stand_ins(schema_at(fault.rule), self._new_word())])

    def _put_value(self, path: Path, options: list[Any], *, is_known: bool = False) -> None:
        """Put one of several values at a place, or none; `is_known`: it is meant to stand there."""
        key: Any = path[-1]
        holder, value = self._value_at(path[:-1]), self._choose_option(options)
        if not isinstance(holder, dict | list):
            return  # what holds it is mended already
        if isinstance(holder, dict) and not is_known:
            self._doubt_words(holder.get(key))
        if value is not _ABSENT:
            holder[key] = value
        elif isinstance(holder, dict):
            holder.pop(key, None)
        if is_known:
            return
        self._made.add(path)
        if path[0] == "parameters":
            self._doubt_parameter(path)

    def _rename_key(self, path: Path, name: str) -> None:
        holder = self._value_at(path[:-1])
        written = {(name if key == path[-1] else key): value for key, value in holder.items()}
        holder.clear()
        holder.update(written)
        self._names[(*path[:-1], name)] = str(path[-1])

    def _move_key(self, path: Path, place: Path) -> None:
        value = self._value_at(path[:-1]).pop(path[-1])
        self._shortened.add(path[:-1])
        holder = self._value
        for end, part in enumerate(place[:-1], 1):
            if not isinstance(holder.get(part), dict):
                holder[part] = {}
                self._shortened.add(place[:end])
                self._holders.add(place[:end])
            holder = holder[part]
        holder[place[-1]] = value
        self._moved[place] = path

    def _doubt_parameter(self, path: Path) -> None:
        """Note that a parameter is not known, or not its name."""
        parameter = self._value_at(path[:2])
        name = parameter.get("name") if isinstance(parameter, dict) else None
        if isinstance(name, str):
            self._doubtful.add(name)
        if len(path) < 3 or path[2] == "name":
            self._knows_names = False

    def _set_aside(self, path: Path) -> None:
        """Leave out what has the right form and is wrong, so that the rest can be judged."""
        value, top = self._value, path[:1]
        if not isinstance(value, dict) or not path or top[0] in ("entry", "name", "description"):
            return
        number = path[1] if len(path) > 1 else None
        parameters = value.get("parameters")
        if top != ("parameters",) or not isinstance(parameters, list) or type(number) is not int:
            self._doubt_words(value.pop(str(top[0]), None))
            self._knows_names = self._knows_names and top != ("parameters",)
            return
        kept = ("name", "type", "description")
        self._doubt_parameter(path)
        parameter = {key: parameters[number][key] for key in kept if key in parameters[number]}
        if path[2:] == ("name",):
            parameter["name"] = self._new_word()
        parameters[number] = parameter

    def _ask_engine(self, check: Callable[[Any], list[DefinitionProblem]]) -> None:
        """Note what an engine would refuse."""
        for _ in range(_MOST_ROUNDS):
            problems = check(self._value)
            first = [each for each in problems if each.nearest or is_of_key(each)]
            near = {word for each in problems for word in _NEAR.findall(each.message)}
            for problem in first or problems:
                if not self._is_consequence(problem, near):
                    self._note_problem(problem)
            if not first:
                break
            for each in first:
                path, near_name, is_key = parse_path(each.path), each.nearest, is_of_key(each)
                key, value = (near_name, "") if is_key else ("", near_name)
                self._mend_form(Fault(path, at_key=is_key, nearest=value, key=key))

    def _is_consequence(self, problem: DefinitionProblem, near: set[str]) -> bool:
        """Return True for what may be right when the other mistakes are mended."""
        words = _QUOTED.findall(problem.message)
        path = parse_path(problem.path)
        is_made = self._is_made(path) or path in self._holders
        if is_made or not self._doubtful.isdisjoint(words):
            return True
        # `'usr' is not declared; did you mean 'user'?` says why 'user' is not used.
        if words and words[0] in near and not _NEAR.search(problem.message):
            return True
        return not (self._knows_names or is_of_key(problem) or set(words) <= {*self._list_names()})

    def _list_names(self) -> Iterator[str]:
        parameters = self._value.get("parameters")
        for each in parameters if isinstance(parameters, list) else ():
            yield each["name"]

    def _note_problem(self, problem: DefinitionProblem) -> None:
        path = parse_path(problem.path)
        written = self._path_as_written(path)
        if written != path:
            problem = problem._replace(path=format_path(written))
        self.found[problem] = None

    def _choose_option(self, options: Iterable[Any]) -> Any:
        listed = list(options)
        self.ways = max(self.ways, len(listed))
        return listed[self._way % len(listed)]

    def _doubt_words(self, value: Any) -> None:
        """Note the words of what is left out: it may use a parameter of this name."""
        if isinstance(value, str):
            self._doubtful.update(_WORD.findall(value))
        elif isinstance(value, dict | list):
            for each in value.values() if isinstance(value, dict) else value:
                self._doubt_words(each)

    def _new_word(self) -> str:
        word = f"stand_in_{len(self._doubtful)}"
        self._doubtful.add(word)
        return word

    def _value_at(self, path: Path) -> Any:
        value: Any = self._value
        for part in path:
            try:
                value = value[part]
            except (LookupError, TypeError):
                return None
        return value

    def _is_made(self, path: Path) -> bool:
        return any(path[:end] in self._made for end in range(1, len(path) + 1))

    def _path_as_written(self, path: Path) -> Path:
        for end in range(len(path), 0, -1):
            if (written := self._moved.get(path[:end])) is not None:
                return (*written, *path[end:])
        steps = ((path[: end + 1], part) for end, part in enumerate(path))
        return tuple(self._names.get(place, part) for place, part in steps)


def is_of_key(problem: DefinitionProblem) -> bool:
    """Return True if a key is unknown, and not its value wrong."""
    return problem.got.startswith("the key ")


def _choose_first(faults: list[Fault]) -> Iterable[Fault]:
    """Return the faults of form on which no other depends: the kind, keys, or the rest."""
    of_form = [fault for fault in faults if fault.rule]
    of_kind = [fault for fault in of_form if fault.path == ("kind",)]
    return of_kind or [fault for fault in of_form if fault.at_key] or of_form
