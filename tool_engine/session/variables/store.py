"""How are a conversation's variables kept, and which go when there are too many?"""

from __future__ import annotations

import json
import re
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from enum import Enum
from typing import Annotated, Any, Final, Protocol, Self

import msgspec

from tool_engine.errors import ConfigurationError, VariableError
from tool_engine.model.checks.bounds import check_count
from tool_engine.model.checks.field_types import convert_value
from tool_engine.model.checks.known_fields import KnownArguments, KnownFields
from tool_engine.model.checks.nearness import find_near
from tool_engine.model.json.copying import copied_whole
from tool_engine.model.json.data import Data
from tool_engine.model.json.returned_value import to_text
from tool_engine.model.json.unpacking import without_collection
from tool_engine.session.variables.texts import LARGE, KeptTexts, keep_in_pieces, without_halves

NAME: Final = r"[A-Za-z0-9_./-]{1,200}"
"""The names that a variable may have."""
MAX_CHARS: Final = 67_108_864
"""The most characters of all variables of a conversation, without rules."""
_NAME: Final = re.compile(NAME)
_LONGEST: Final = 200
_FEW: Final = 256
"""Characters of a value that are looked at one by one in no time."""
_TEXT: Final = frozenset((str,))
_PLAIN: Final = frozenset((str, int, bool, type(None)))


class VariableKind(str, Enum):
    """Who or what made a variable. U40."""

    RULE = "RULE"
    """A rule or a skill of a group: always kept, never written by a model."""
    TOOL_CALL_RESULT = "ToolCallResult"
    TOOL_CALL_ARGS = "ToolCallArgs"
    MESSAGE_CACHE = "MessageCache"
    LLM_ADD = "LLMAdd"
    """Written by the model."""
    USER_ADD = "USER_ADD"
    """Written by the embedding program or its user."""


_LABELS: Final = {
    VariableKind.RULE: "rule",
    VariableKind.LLM_ADD: "model",
    VariableKind.USER_ADD: "user",
}
_UNKNOWN: Final = "unknown"
"""The label of content from a call or message of unknown origin."""


class Variable(msgspec.Struct, Data, frozen=True, kw_only=True, metaclass=KnownFields):
    """One kept value. Immutable: writing it again makes a new one."""

    name: str
    value: Any
    """A JSON value; read it, do not change it."""
    kind: VariableKind = VariableKind.USER_ADD
    desc: str = ""
    """A description for people and models."""
    tags: tuple[str, ...] = ()
    labels: frozenset[Annotated[str, msgspec.Meta(pattern=r"\S")]] = frozenset()
    """Where its content came from: a text for each origin, such as `user` or `tool:fetch_page
    effect:read host:example.com`. Without any, the kind decides.
    """
    created: datetime = msgspec.field(default_factory=lambda: datetime.now(UTC))
    updated: datetime = msgspec.field(default_factory=lambda: datetime.now(UTC))
    chars: int = 0
    """Characters of its text; the store counts them."""

    @property
    def text(self) -> str:
        """The value as a model reads it: a string, or JSON."""
        return to_text(self.value)

    @property
    def is_kept(self) -> bool:
        """Whether it stays however many variables there are."""
        return self.kind is VariableKind.RULE


def make_kept(variable: Variable, *, in_pieces: bool = False) -> Variable:
    """Return the variable with a copied JSON value and a label.

    Takes time in proportion to the value, and may do so in a thread; `in_pieces`: see `copy_value`.
    """
    value, chars = copy_value(variable.value, in_pieces=in_pieces)
    labels = variable.labels or frozenset({_LABELS.get(variable.kind, _UNKNOWN)})
    return msgspec.structs.replace(variable, value=value, chars=chars, labels=labels)


class Unmade(Protocol):
    """Variables that are made when one of them is first read."""

    @property
    def names(self) -> tuple[str, ...]:
        """The name of each, the oldest first."""

    @property
    def most(self) -> int:
        """The most characters that all their texts may have."""

    def find_most(self, name: str) -> int:
        """Return the most characters that the text of one of them may have."""

    def make(self) -> Iterable[Variable]:
        """Return all of them, as `make_kept` makes variables."""


@copied_whole
class VariableStore(KnownArguments):
    """The variables of one conversation, by name.

    At most `capacity` of at most `max_chars` characters are kept, rules not counted: the one that
    was neither read nor written for the longest time goes first, and the one that was written last
    stays however long it is.

    Args:
        capacity: The most variables.
        max_chars: The most characters of all their texts.

    Raises:
        ConfigurationError: A number of less than 1.
    """

    def __init__(self, capacity: int = 1000, max_chars: int = MAX_CHARS) -> None:
        check_count("capacity", capacity, minimum=1)
        check_count("max_chars", max_chars, minimum=1)
        self.capacity = capacity
        self.max_chars = max_chars
        self.evicted = 0
        """The number of variables that were removed for lack of room."""
        self.texts = KeptTexts()
        """The texts of large variables, which take long to make."""
        self.has_large = False
        """Whether there ever was a large one."""
        # In the order of last use. A plain dict would search ever longer for its first entry.
        self._used: OrderedDict[str, Variable | Unmade] = OrderedDict()
        self._kept: dict[str, Variable] = {}
        self._chars = 0
        self._unmade = 0
        """The most characters of those that are not made yet."""

    def __repr__(self) -> str:
        return f"VariableStore({len(self._used)} of {self.capacity}, {len(self._kept)} rules)"

    def __len__(self) -> int:
        return len(self._used) + len(self._kept)

    def __contains__(self, name: object) -> bool:
        return name in self._used or name in self._kept

    def has_either(self, first: str, second: str) -> bool:
        """Return True if a variable has one of two names."""
        used, kept = self._used, self._kept
        return first in used or second in used or first in kept or second in kept

    @property
    def chars(self) -> int:
        """The characters of all texts, without rules."""
        self._make_all()
        return self._chars

    def __iter__(self) -> Iterator[Variable]:
        """Iterate over all variables: rules first, then the longest unused."""
        return iter([*self._kept.values(), *self._make_all()])

    def add(self, variable: Variable) -> Variable:
        """Keep a variable, over one of its name, whose `created` stays.

        What is kept is a copy of the value, of JSON values only: of anything else, such as a date,
        a set or a NaN, what a model reads of it (`to_text`).

        Returns:
            The variable as it is kept.

        Raises:
            VariableError: The name cannot be referenced, or belongs to a rule; or a field has a
                value that it cannot have.
        """
        return self.take(make_kept(_check_variable(variable)))

    def take(self, variable: Variable) -> Variable:
        """Do the same as `add`, for a variable from `make_kept`.

        Raises:
            VariableError: As for `add`.
        """
        name = variable.name
        # A Python identifier needs no closer look; names of calls are such.
        is_plain = name.isascii() and name.isidentifier() and len(name) <= _LONGEST
        if not is_plain or name in self._kept:
            self._check_name(variable)
        if name in self._used or name in self._kept:
            old = self._kept.get(name) or self._make_one(name)
            variable = msgspec.structs.replace(variable, created=old.created)
            self._forget_name(name)
        if variable.kind is VariableKind.RULE:
            self._kept[name] = variable
        else:
            self._used[name] = variable
            self._chars += variable.chars
            self.has_large = self.has_large or variable.chars > LARGE
            self._evict_oldest()
        return variable

    def take_later(self, unmade: Unmade) -> bool:
        """Keep variables under new names, and make them when one of them is first read.

        Most variables of calls are never read.

        Args:
            unmade: What makes all of them; variables may have such names.

        Returns:
            Whether it did: no variable had one of the names.
        """
        used, kept, names = self._used, self._kept, unmade.names
        for name in names:
            if name in used or name in kept:
                return False
        for name in names:
            used[name] = unmade
        self._unmade += unmade.most
        if len(used) > self.capacity or self._chars + self._unmade > self.max_chars:
            self._evict_oldest()
        return True

    def get(self, name: str) -> Variable:
        """Return the variable of that name, as one use of it.

        Raises:
            VariableError: There is none; the message lists the nearest names.
        """
        variable = self._kept.get(name)
        if variable is not None:
            return variable
        if name not in self._used:
            name = str(name)[:80]
            raise VariableError(f"there is no variable {name!r}{self._find_near_names(name)}")
        variable = self._make_one(name)
        self._used.move_to_end(name)
        return variable

    def remove(self, names: str | Iterable[str]) -> list[str]:
        """Remove variables and return the names that existed.

        A text is one name.

        Raises:
            VariableError: One of them is a rule; then none is forgotten.
        """
        listed = [names] if isinstance(names, str) else list(dict.fromkeys(names))
        rules = [name for name in listed if name in self._kept]
        if rules:
            raise VariableError(f"{rules[0]!r} is a rule, which cannot be removed")
        return [name for name in listed if self._forget_name(name)]

    def forget_rules(self, names: Iterable[str]) -> None:
        """Remove rules, for the conversation itself: those of groups that are off."""
        for name in names:
            self._kept.pop(name, None)

    def find(
        self, *, kind: VariableKind | None = None, search: str = "", tag: str | None = None
    ) -> list[Variable]:
        """Return the matching variables, the last used first, rules at the end.

        Args:
            kind: Where they came from.
            search: A text in the name or the description, in any case.
            tag: One of their tags.
        """
        wanted = search.casefold()
        return [
            each
            for each in [*reversed(self._make_all()), *self._kept.values()]
            if (kind is None or each.kind is kind)
            and (tag is None or tag in each.tags)
            and (wanted in each.name.casefold() or wanted in each.desc.casefold())
        ]

    def to_dict(self, *, is_shared: bool = False) -> dict[str, Any]:
        """Return all variables as JSON values, for `from_dict`.

        Args:
            is_shared: Whether the values are those that are kept, which must not be changed, and no
                copies, which take their time.
        """
        as_dict = _as_shared if is_shared else _as_dict
        return {
            "capacity": self.capacity,
            "max_chars": self.max_chars,
            "evicted": self.evicted,
            "variables": [as_dict(each) for each in self],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], *, in_pieces: bool = False) -> Self:
        """Return the store that `to_dict` wrote.

        Args:
            data: What it wrote.
            in_pieces: Whether this is a thread, which lets others have their turn where it can.

        Raises:
            VariableError: The data is not what `to_dict` writes; the message names the place.
        """
        try:
            kept = convert_value(data, _Kept)
            store = cls(kept.capacity, kept.max_chars)
        except (msgspec.ValidationError, ConfigurationError) as error:
            raise VariableError(f"these are no kept variables: {error}") from error
        with without_collection():
            for variable in kept.variables:
                store.take(_restore_variable(variable, in_pieces=in_pieces))
        store.evicted = kept.evicted
        return store

    def _check_name(self, variable: Variable) -> None:
        if not _NAME.fullmatch(variable.name):
            raise VariableError(
                f"no variable can be named {variable.name[:80]!r}: a name has 1 to 200 of the "
                "characters A-Z, a-z, 0-9, _ . / and -"
            )
        if variable.name in self._kept and not variable.is_kept:
            raise VariableError(
                f"{variable.name!r} is a rule, which cannot be written: choose another name"
            )

    def _forget_name(self, name: str) -> bool:
        old = self._used.pop(name, None)
        if old is not None:
            self._let_go(name, old)
        return old is not None

    def _let_go(self, name: str, old: Variable | Unmade) -> None:
        if not isinstance(old, Variable):
            self._unmade -= old.find_most(name)
            return
        self._chars -= old.chars
        if old.chars > LARGE:
            self.texts.forget(old)

    def _make_one(self, name: str) -> Variable:
        """Return a variable, which is made now if it was not yet."""
        found = self._used[name]
        if isinstance(found, Variable):
            return found
        for each in found.make():
            # It may be gone, or another one may have its name.
            unmade = self._used.get(each.name)
            if unmade is found:
                self._let_go(each.name, found)
                self._used[each.name] = each
                self._chars += each.chars
        return self._make_one(name)

    def _make_all(self) -> list[Variable]:
        """Return all variables but rules, in the order of last use."""
        return [self._make_one(name) for name in [*self._used]]

    def __getstate__(self) -> dict[str, Any]:
        """Return what a copy has: variables, and nothing that makes some."""
        self._make_all()
        return vars(self)

    def _evict_oldest(self) -> None:
        used = self._used
        while len(used) > self.capacity:
            # As almost always: one for each new one.
            self._let_go(*used.popitem(last=False))
            self.evicted += 1
        if self._chars + self._unmade > self.max_chars:
            self._measure_oldest()
        while self._chars > self.max_chars and len(used) > 1:
            self._let_go(*used.popitem(last=False))
            self.evicted += 1

    def _measure_oldest(self) -> None:
        """Make variables, the longest unused first, until all are known to be short enough."""
        unmade = [name for name, each in self._used.items() if not isinstance(each, Variable)]
        for name in unmade:
            if self._chars + self._unmade <= self.max_chars:
                return
            self._make_one(name)

    def _find_near_names(self, name: str) -> str:
        if not len(self):
            return "; nothing is kept yet"
        # So many take a tenth of a second; more would hold up other calls.
        known = [*self._used, *self._kept][-1000:]
        near = find_near(name, known, like_enough=0.4) or known[-3:]
        return f"; near are {', '.join(near)}"


def _check_variable(variable: Any) -> Variable:
    """Check the types of a variable, so that it reads back.

    Raises:
        VariableError: It is no variable, or has a field of another type.
    """
    if not isinstance(variable, Variable):
        kind = type(variable).__name__
        raise VariableError(f"no {kind} can be kept: pass Variable(name=..., value=...)")
    try:
        return convert_value(msgspec.structs.asdict(variable), Variable)
    except msgspec.ValidationError as error:
        name = str(variable.name)[:80]
        raise VariableError(f"the variable {name!r} cannot be kept: {error}") from error


class _Kept(msgspec.Struct, forbid_unknown_fields=True):
    capacity: int
    evicted: Annotated[int, msgspec.Meta(ge=0)]
    variables: list[Variable]
    max_chars: int = MAX_CHARS
    traces: list[dict[str, Any]] = []
    """Of saves of former versions, whose labels a session reads."""


def _as_shared(variable: Variable) -> dict[str, Any]:
    """A variable as JSON values: sets in order, and its value itself."""
    return {
        "name": variable.name,
        "value": variable.value,
        "kind": variable.kind.value,
        "desc": variable.desc,
        "tags": list(variable.tags),
        "labels": sorted(variable.labels),
        "created": msgspec.to_builtins(variable.created),
        "updated": msgspec.to_builtins(variable.updated),
        "chars": variable.chars,
    }


def _as_dict(variable: Variable) -> dict[str, Any]:
    """Return the same with a copy of the value, keys in order.

    Positions in its text that a model knows stay the same.
    """
    return {**_as_shared(variable), "value": msgspec.to_builtins(variable.value)}


def _restore_variable(variable: Variable, *, in_pieces: bool) -> Variable:
    """Return a kept variable with its own value, counted once."""
    if in_pieces or variable.chars < _FEW:
        return make_kept(variable, in_pieces=in_pieces)
    try:
        text = msgspec.json.encode(variable.value)
        # Python writes a space behind each comma, and some numbers shorter or longer.
        if not len(text.decode()) // 2 <= variable.chars <= 2 * len(text) + 2:
            return make_kept(variable)
        value = msgspec.json.decode(text)
        is_same = value == variable.value
    except Exception:  # noqa: BLE001 - half of a surrogate pair, or nothing that JSON holds
        return make_kept(variable)
    # Else something in it has another form in JSON.
    return msgspec.structs.replace(variable, value=value) if is_same else make_kept(variable)


def copy_value(value: Any, *, in_pieces: bool = False) -> tuple[Any, int]:
    """Return a value's copy as JSON values, and its text's length.

    Args:
        value: The value.
        in_pieces: Whether this is a thread, which lets others have their turn where it can: a large
            value takes twice the time then.
    """
    is_text = type(value) is str
    if is_text and value.isascii():
        return value, len(value)
    chars = None if is_text else _chars_of_plain(value)
    if chars is not None:
        return value.copy() if type(value) is dict else value, chars
    made = keep_in_pieces(value) if in_pieces else None
    if made is not None:
        return made
    text = to_text(value)
    if isinstance(value, str):
        return text, len(text)
    text = without_halves(text)
    try:
        kept = json.loads(text)
    except RecursionError:  # pragma: no cover - what can be written can be read so far
        kept = text
    return kept, len(kept if isinstance(kept, str) else text)


def _chars_of_plain(value: Any) -> int | None:
    """Return the length of the text of a flat, plain JSON value that is no text itself.

    None: it may be something else. The text itself is not written: only its length is needed.
    """
    kind = type(value)
    if kind is dict:
        if not (
            _TEXT.issuperset(map(type, value)) and _PLAIN.issuperset(map(type, value.values()))
        ):
            return None
        # Without the space behind each colon and each comma that the text has.
        spaces = max(0, 2 * len(value) - 1)
    elif kind in _PLAIN:
        spaces = 0
    else:
        return None
    try:
        written = msgspec.json.encode(value)
    except Exception:  # noqa: BLE001 - half of a surrogate pair, or a very large number
        return None
    return spaces + (len(written) if written.isascii() else len(written.decode()))
