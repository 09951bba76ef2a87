"""Do the defaults that classes and functions give fit their own types?

msgspec converts JSON into a class and takes its defaults unchecked. One that is the same for every
call is judged when the tool is registered; one that a function makes, when it was made.
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterator, Mapping
from pathlib import PurePath
from typing import Any, Final

import msgspec
from msgspec import inspect as types

Check = Callable[[Any, Any, str], Iterator[tuple[str, str]]]
"""Takes what was sent, the value made of it, and its place; yields places and faults."""
_KNOWN: Final = (list, dict, set, frozenset, tuple, str, int, float, bool, bytes)
_Class = types.StructType | types.DataclassType | types.TypedDictType | types.NamedTupleType


def is_known(factory: object) -> bool:
    """Return True if a factory makes the same for every call."""
    return any(factory is each for each in _KNOWN)


def convert_json(value: Any, hint: Any) -> Any:
    """Make a value of `hint` from JSON data; raises what `split_error` splits."""
    return msgspec.convert(value, hint, str_keys=True, dec_hook=_make_path)


def write_path(value: Any) -> str:
    """Write a path as text, for `msgspec.to_builtins`."""
    if isinstance(value, PurePath):
        return str(value)
    # The word by which msgspec's hooks say that a value is none of theirs.
    raise NotImplementedError(type(value).__name__)


def _make_path(kind: type, value: Any) -> Any:
    if not issubclass(kind, PurePath):
        raise NotImplementedError(kind.__name__)
    if not isinstance(value, str):
        raise TypeError("expected a path as text")
    return kind(value)


def find_misfit(value: Any, hint: Any) -> tuple[str, str] | None:
    """Return where and why a Python value misfits; None: it fits."""
    if hint is Any or hint is object:
        return None
    try:
        convert_json(msgspec.to_builtins(value, str_keys=True, enc_hook=write_path), hint)
    except Exception as error:  # noqa: BLE001 - classes of a user may raise anything
        return split_error(error)
    return None


def split_error(error: Exception) -> tuple[str, str]:
    """Split a conversion error into place (`.items[0]`) and reason."""
    text = str(error)
    reason, mark, place = text.rpartition(" - at `")
    if not mark or not isinstance(error, msgspec.ValidationError):
        named = text if isinstance(error, msgspec.ValidationError) else describe_error(error, text)
        return "", named
    # `key` marks a wrong key of the object, and [...] some value of one.
    inside = place.removeprefix("key` in `").removesuffix("`").removeprefix("$")
    return inside.partition("[...]")[0], reason


def describe_error(error: Exception, text: str) -> str:
    """Name what a function of the user raised."""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def check_of(hint: Any) -> Check | None:
    """Return the check of defaults made per value, or None."""
    node = types.type_info(hint)
    return _check_whole(hint) if _is_recursive(node, ()) else _make_check(node)


def _is_recursive(node: Any, above: tuple[Any, ...]) -> bool:
    if any(node is each for each in above):
        return True
    inside = (*above, node) if isinstance(node, _Class) else above
    return any(_is_recursive(below, inside) for below in _inner_nodes(node))


def _check_whole(hint: Any) -> Check:
    """Return the check of all defaults at once, for a type that refers to itself."""

    def check(sent: Any, made: Any, path: str) -> Iterator[tuple[str, str]]:
        if (found := find_misfit(made, hint)) is not None:
            yield path + found[0], found[1]

    return check


def known_faults(hint: Any) -> Iterator[tuple[str, str]]:
    """Yield the place and fault of each wrong fixed default."""
    for node in _walk_nodes(types.type_info(hint)):
        if isinstance(node, _Class):
            for field, rule in _field_hints(node):
                value = field.default
                if is_known(field.default_factory):
                    value = field.default_factory()
                # None stands for "left out", whatever the type is.
                if value is not msgspec.NODEFAULT and value is not None:
                    found = find_misfit(value, rule)
                    if found is not None:
                        yield f"{node.cls.__name__}.{field.name}{found[0]}", found[1]


def runs_code(hint: Any) -> bool:
    """Return True if conversion to `hint` runs functions of its classes."""
    return any(
        isinstance(node, _Class)
        and (
            hasattr(node.cls, "__post_init__")
            or hasattr(node.cls, "__attrs_attrs__")
            or any(map(_is_made, node.fields))
        )
        for node in _walk_nodes(types.type_info(hint))
    )


def _walk_nodes(node: Any) -> Iterator[Any]:
    pending, seen = [node], set[int]()
    while pending:
        node = pending.pop()
        if id(node) not in seen:
            seen.add(id(node))
            yield node
            pending += _inner_nodes(node)


def _inner_nodes(node: Any) -> list[Any]:
    if isinstance(node, _Class):
        return [field.type for field in node.fields]
    if isinstance(node, types.DictType):
        return [node.key_type, node.value_type]
    if isinstance(node, types.UnionType):
        return list(node.types)
    if isinstance(node, types.TupleType):
        return list(node.item_types)
    inner = getattr(node, "item_type", None) or getattr(node, "type", None)
    return [inner] if isinstance(inner, types.Type) else []


def _field_hints(node: Any) -> Iterator[tuple[Any, Any]]:
    hints = typing.get_type_hints(node.cls, include_extras=True)
    for field in node.fields:
        yield field, hints.get(field.name, Any)


def _is_made(field: Any) -> bool:
    factory = field.default_factory
    return factory is not msgspec.NODEFAULT and not is_known(factory)


def _make_check(node: Any) -> Check | None:
    if isinstance(node, types.Metadata):
        return _make_check(node.type)
    made = (make for kinds, make in _MAKERS if isinstance(node, kinds))
    return next(made, lambda _: None)(node)


def _of_class(node: Any) -> Check | None:
    fields = [
        (field, hint if _is_made(field) else None, _make_check(field.type))
        for field, hint in _field_hints(node)
    ]
    if not any(hint is not None or below is not None for _, hint, below in fields):
        return None
    is_list = isinstance(node, types.NamedTupleType) or getattr(node, "array_like", False)
    first = 0 if getattr(node, "tag", None) is None else 1

    def check(sent: Any, made: Any, path: str) -> Iterator[tuple[str, str]]:
        for number, (field, hint, below) in enumerate(fields, first):
            value = made[field.name] if isinstance(made, Mapping) else getattr(made, field.name)
            key = number if is_list else field.encode_name
            place = f"{path}[{key}]" if is_list else f"{path}.{key}"
            if key < len(sent) if is_list else key in sent:
                if below is not None:
                    yield from below(sent[key], value, place)
            elif hint is not None and (found := find_misfit(value, hint)) is not None:
                yield place + found[0], found[1]

    return check


def _of_union(node: Any) -> Check | None:
    checks = {
        getattr(each, "cls", kind): below
        for each in node.types
        for kind in (list, dict, tuple)
        if (below := _make_check(each)) is not None
    }

    def check(sent: Any, made: Any, path: str) -> Iterator[tuple[str, str]]:
        below = checks.get(type(made))
        if below is not None:
            yield from below(sent, made, path)

    return check if checks else None


def _of_values(node: Any) -> Check | None:
    below = _make_check(node.value_type)
    if below is None:
        return None

    def check(sent: Any, made: Any, path: str) -> Iterator[tuple[str, str]]:
        for (key, value), item in zip(sent.items(), made.values(), strict=False):
            yield from below(value, item, f"{path}.{key}")

    return check


def _of_list(node: Any) -> Check | None:
    below = _make_check(node.item_type)
    return None if below is None else _of_items([below], repeats=True)


def _of_tuple(node: Any) -> Check | None:
    each = [_make_check(inner) for inner in node.item_types]
    return _of_items(each) if any(each) else None


def _of_items(checks: list[Check | None], *, repeats: bool = False) -> Check:
    def check(sent: Any, made: Any, path: str) -> Iterator[tuple[str, str]]:
        each = checks * len(sent) if repeats else checks
        for number, (below, value, item) in enumerate(zip(each, sent, made, strict=False)):
            if below is not None:
                yield from below(value, item, f"{path}[{number}]")

    return check


_MAKERS: Final[tuple[tuple[Any, Callable[[Any], Check | None]], ...]] = (
    (_Class, _of_class),
    (types.UnionType, _of_union),
    (types.DictType, _of_values),
    (types.ListType | types.VarTupleType, _of_list),
    (types.TupleType, _of_tuple),
)
