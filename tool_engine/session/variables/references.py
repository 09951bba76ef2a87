"""Which variables do arguments refer to, and how are the references replaced?

`$VAR_REF{{name}}` stands for the whole of a variable, `$VAR_REF{{name:start}}` for its text from a
character on, `$VAR_REF{{name:start:length}}` for that many characters. References are replaced
once: what comes out of a variable is data, whatever it looks like.

A text protocol reads `42` as a number where the tool wants one. Where a reference stands in such a
text, that is known only once the reference is replaced. What comes out of a variable is one value:
it can fill a place in a list or an object, and never change how many places there are.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from tool_engine.errors import VariableError
from tool_engine.model.tool import Tool
from tool_engine.protocols.arguments.coercion import coerce
from tool_engine.session.variables.store import NAME, Variable, VariableStore

MAX_EXPANDED: Final = 16_777_216
"""The most characters that the references of one call may expand to."""
BEGIN: Final = "$VAR_REF{{"
_NUMBERS: Final = frozenset((int, float, bool, type(None)))
REFERENCE: Final = (
    rf"\$(\$?)VAR_REF\{{\{{(?:({NAME})(?::([0-9]{{1,1000}})(?::([0-9]{{1,1000}}))?)?\}}\}})?"
)
"""What may be a reference; only one with a name in its second group is."""
_REFERENCE: Final = re.compile(REFERENCE)
_ALONE: Final = re.compile(rf"\$VAR_REF\{{\{{{NAME}\}}\}}")
_ONLY: Final = re.compile(rf"(?:{REFERENCE})+")
_BARE: Final = re.compile(rf'"[^"\\]*(?:\\.[^"\\]*)*"?|{REFERENCE}', re.S)


class Expanded(msgspec.Struct, frozen=True):
    """Arguments in which references were replaced, and where all in them came from."""

    params: dict[str, Any]
    variables: tuple[Variable, ...]
    """The variables that were put in, each once, in the order of the first reference."""
    texts: frozenset[str] = frozenset()
    """The places of texts that may be read as values: of a list or an object, only where it was
    nothing but references.
    """
    read: frozenset[str] = frozenset()
    """The labels of what the model had read when it wrote the arguments."""
    typed: frozenset[str] = frozenset()
    """The labels of what the model typed in them: `read`, if it did; see `has_typed`."""

    @property
    def labels(self) -> frozenset[str]:
        """The labels of all that was put in or typed."""
        return self.typed.union(*(each.labels for each in self.variables))


def write_reference(name: str, start: int | None = None, length: int | None = None) -> str:
    """Return the text that refers to a variable, or a part."""
    place = "" if start is None else f":{start}"
    return f"{BEGIN}{name}{place}{'' if length is None or start is None else f':{length}'}}}}}"


def expand_references(params: dict[str, Any], store: VariableStore) -> Expanded:
    """Return the arguments with every reference replaced, at any depth. S25.

    A text that is nothing but one reference to a whole variable becomes its value, of whatever
    type; elsewhere the text of the value is put in. `$$VAR_REF{{` stands for the literal
    characters. `params` is not changed.

    Raises:
        VariableError: A reference is malformed, names no variable, stands in a key, or there is
            too much to put in.
    """
    if not may_refer(params):
        return Expanded(params, ())
    expansion = _Expansion(store)
    try:
        expanded = {
            expansion.key(key, "arguments"): expansion.value(item, f"{key}")
            for key, item in params.items()
        }
    except RecursionError:
        raise VariableError("the arguments with references are nested too deep") from None
    texts = frozenset(expansion.texts)
    return Expanded(expanded, tuple(expansion.used.values()), texts)


def has_typed(params: dict[str, Any], tool: Tool) -> bool:
    """Return True if arguments are anything else than references to whole variables.

    The numbers of a reference to a part, the words around a reference, the order of a list and the
    keys of an object are typed: with them a model can spell whatever it has read.

    Args:
        params: The arguments of a call, before references are replaced.
        tool: Its tool: a name that is none of its parameters is a word of the model.
    """
    for item in params.values():
        if type(item) is not str or _ALONE.fullmatch(item) is None:
            return True
    if not params:
        return False
    known = {each.name for each in tool.parameters}
    return not all(name in known for name in params)


async def make_ready(params: dict[str, Any], store: VariableStore) -> None:
    """Make the texts of referenced large variables, before `expand_references` needs them.

    Args:
        params: The arguments.
        store: Where the variables are.
    """
    for text in _find_texts(params):
        for found in _REFERENCE.finditer(text) if BEGIN in text else ():
            if found[2] in store:
                await store.texts.make(store.get(found[2]))


def may_refer(params: dict[str, Any]) -> bool:
    """Return True if a text in the arguments may hold a reference."""
    for key, item in params.items():
        if isinstance(key, str) and BEGIN in key:
            return True
        if type(item) is str:
            if BEGIN in item:
                return True
        elif type(item) not in _NUMBERS and _holds_reference(item):
            return True
    return False


def is_typed_flat(params: dict[str, Any]) -> bool:
    """Return True for texts and numbers alone, none of which may hold a reference."""
    for key, item in params.items():
        kind = type(item)
        if kind is str:
            if BEGIN in item:
                return False
        # Not by a set: the type of what a caller gives may have a hash of its own, which raises.
        elif kind is not int and kind is not float and kind is not bool and item is not None:
            return False
        if type(key) is not str or BEGIN in key:
            return False
    return True


def _holds_reference(value: Any) -> bool:
    try:
        # Writing it is much quicker than looking at each of its parts.
        return BEGIN.encode() in msgspec.json.encode(value)
    except Exception:  # noqa: BLE001 - no JSON, or too deep: its texts count all the same
        return any(BEGIN in text for text in _find_texts(value))


def _find_texts(value: Any) -> Iterator[str]:
    """Find every text in a value, keys too, at any depth."""
    rest, seen = [value], set[int]()
    while rest:
        item = rest.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, dict | list | tuple) and id(item) not in seen:
            seen.add(id(item))
            parts = [*item, *item.values()] if isinstance(item, dict) else item
            rest.extend([part for part in parts if type(part) not in _NUMBERS])


class _Expansion:
    def __init__(self, store: VariableStore) -> None:
        self.used: dict[str, Variable] = {}
        self.texts: list[str] = []
        # A thousand references to one variable write its text once.
        self._written: dict[str, str] = {}
        self._store = store
        self._left = MAX_EXPANDED

    def value(self, value: Any, path: str) -> Any:
        if isinstance(value, str):
            return self._expand_text(value, path) if BEGIN in value else value
        if isinstance(value, dict):
            return {
                self.key(key, path): self.value(item, f"{path}.{key}")
                for key, item in value.items()
            }
        if isinstance(value, list | tuple):
            return [self.value(item, f"{path}[{place}]") for place, item in enumerate(value)]
        return value

    def key(self, key: Any, path: str) -> Any:
        if isinstance(key, str) and BEGIN in key:
            raise VariableError(f"a key cannot refer to a variable: {key[:80]!r}", path)
        return key

    def _expand_text(self, text: str, path: str) -> Any:
        whole = _REFERENCE.fullmatch(text)
        if whole is not None and not whole[1] and whole[2] and whole[3] is None:
            variable, text = self._take_variable(whole, path)
            self._spend_room(len(text), path)
            # A copy of the value, which the tool may change.
            if not isinstance(variable.value, str):
                return json.loads(text)
            self.texts.append(path)
            return text
        made = _REFERENCE.sub(lambda found: self._expand_part(found, path), text)
        if made.lstrip()[:1] not in ("[", "{") or _ONLY.fullmatch(text.strip()):
            self.texts.append(path)
        return made

    def _expand_part(self, found: re.Match[str], path: str) -> str:
        if found[1]:
            return found[0][1:]
        _, text = self._take_variable(found, path)
        if found[3] is not None:
            start = int(found[3])
            text = text[start:] if found[4] is None else text[start : start + int(found[4])]
        self._spend_room(len(text), path)
        return text

    def _take_variable(self, found: re.Match[str], path: str) -> tuple[Variable, str]:
        name = found[2]
        if name is None:
            shown = found.string[found.start() : found.start() + 80]
            raise VariableError(
                f"{shown!r} is no reference: write $VAR_REF{{{{name}}}}, "
                "$VAR_REF{{name:start}} or $VAR_REF{{name:start:length}} without spaces, or "
                "$$VAR_REF{{ for the characters themselves",
                path,
            )
        if name not in self.used:
            try:
                self.used[name] = self._store.get(name)
            except VariableError as error:
                raise VariableError(str(error), path) from None
            self._written[name] = self._store.texts.of(self.used[name])
        return self.used[name], self._written[name]

    def _spend_room(self, size: int, path: str) -> None:
        self._left -= size
        if self._left < 0:
            raise VariableError(
                f"the references of one call come to more than {MAX_EXPANDED} characters: "
                "refer to parts, with start and length",
                path,
            )


def expand_written(params: dict[str, Any], tool: Tool, store: VariableStore) -> Expanded:
    """Do the same as `expand_references`, for arguments from a text protocol.

    A text that held references becomes a number, a boolean, a list or an object by the same rules
    as one that held none.

    Args:
        params: The arguments; they are not changed.
        tool: Whose they are, as the model knows it.
        store: Where the variables are.

    Raises:
        VariableError: As for `expand_references`.
    """
    if not may_refer(params):
        return Expanded(params, ())
    expanded = expand_references(
        {key: _open_places(key, item, tool) for key, item in params.items()}, store
    )
    if not expanded.texts:
        return expanded
    read, _ = coerce(tool, expanded.params, only=expanded.texts)
    return replace(expanded, params=read)


def _open_places(key: str, value: Any, tool: Tool) -> Any:
    """Return the list or object in a text with unquoted references."""
    if not isinstance(value, str) or BEGIN not in value or value.lstrip()[:1] not in ("[", "{"):
        return value
    read, _ = coerce(tool, {key: _BARE.sub(_quote_reference, value)})
    return value if isinstance(read[key], str) else read[key]


def _quote_reference(found: re.Match[str]) -> str:
    is_reference = not found[0].startswith(('"', "$$")) and found[0].endswith("}}")
    return f'"{found[0]}"' if is_reference else found[0]
