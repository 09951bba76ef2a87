"""What is the cheapest way to accept correct arguments?

Each variant looks once at the types and once asks the compiled validator; the variant of a tool is
chosen when it is compiled, so that a call pays for nothing that its tool does not declare. What a
variant cannot accept by type alone it passes to `careful`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from struct import unpack_from
from typing import Any, Final

import jsonschema_rs
import msgspec

from tool_engine.model.json.unpacking import LARGE, unpack_value
from tool_engine.validation.filling import Filling, TooManyDefaultsError
from tool_engine.validation.position import build_validator
from tool_engine.validation.shape import (
    LARGEST,
    MAX_DEPTH,
    MAX_VALUES,
    SMALLEST,
    copy_plain,
    count_values,
    is_encodable,
)

Accept = Callable[[Any], dict[str, Any] | None]
AcceptPacked = Callable[[Any, bytes], dict[str, Any] | None]
Unshared = tuple[tuple[str, Any], ...]
_FLOAT: Final = b"\xcb"
"""The byte that stands before a float in MessagePack."""
_MOST_FLOATS: Final = 32
"""Floats that are looked at; more of them are looked at by `careful`."""
_SCALARS: Final = frozenset(("string", "number", "integer", "boolean", "null"))
_DEEP: Final = 8
"""Levels of objects to which `is_sealed` follows a schema."""


def choose_accept(
    is_valid: Callable[[Any], bool],
    *,
    careful: Accept,
    defaults: Mapping[str, Any],
    unshared: Unshared,
    filling: Filling | None,
    numbers: frozenset[str],
    is_bounded: bool,
) -> Accept:
    """Return the cheapest `accept` for a tool.

    Args:
        is_valid: The compiled schema.
        careful: Accepts any value, but is slower.
        defaults: The defaults of the optional parameters.
        unshared: The defaults that each call needs its own copy of.
        filling: The defaults inside of the arguments; None: there are none.
        numbers: The parameters that accept a float unchanged.
        is_bounded: Whether a rule depends on how large a number is.
    """
    if numbers or is_bounded:
        accept = _accept_with_numbers(is_valid, careful, defaults, numbers)
    else:
        accept = _accept_without_numbers(is_valid, careful, defaults)
    return complete_steps(accept, unshared, filling)


# In each variant below, a text outside ASCII is looked at for lone surrogates, which the validator
# lets pass, and an integer for its size only where a rule asks for it; a container, a subclass and
# most floats are never plain enough.


def _accept_without_numbers(
    is_valid: Callable[[Any], bool], careful: Accept, defaults: Mapping[str, Any]
) -> Accept:
    def accept(params: Any) -> dict[str, Any] | None:
        if type(params) is not dict:
            return careful(params)
        for value in params.values():
            kind = type(value)
            if kind is int:
                continue
            if kind is str:
                if value.isascii() or is_encodable(value):
                    continue
                return None
            if kind is not bool and value is not None:
                return careful(params)
        try:
            return {**defaults, **params} if is_valid(params) else None
        except ValueError:
            # A key that is no text, or that no encoding can carry.
            return None

    return accept


def _accept_with_numbers(
    is_valid: Callable[[Any], bool],
    careful: Accept,
    defaults: Mapping[str, Any],
    numbers: frozenset[str],
) -> Accept:
    def accept(params: Any) -> dict[str, Any] | None:
        if type(params) is not dict:
            return careful(params)
        for name, value in params.items():
            kind = type(value)
            if kind is int and SMALLEST < value < LARGEST:
                continue
            if kind is str:
                if value.isascii() or is_encodable(value):
                    continue
                return None
            if (
                kind is not bool
                and value is not None
                and (kind is not float or name not in numbers)
            ):
                return careful(params)
        try:
            return {**defaults, **params} if is_valid(params) else None
        except ValueError:
            return None

    return accept


def complete_steps(
    accept: Callable[..., dict[str, Any] | None], unshared: Unshared, filling: Filling | None
) -> Callable[..., dict[str, Any] | None]:
    """Return `accept` followed by the steps that only some tools need."""
    if not unshared and filling is None:
        return accept

    def accept_and_complete(*sent: Any) -> dict[str, Any] | None:
        accepted = accept(*sent)
        if accepted is not None:
            unshare_defaults(accepted, unshared)
            if filling is not None:
                try:
                    filling.fill(accepted)
                except TooManyDefaultsError:
                    return None
        return accepted

    return accept_and_complete


def unshare_defaults(params: dict[str, Any], unshared: Unshared) -> dict[str, Any]:
    """Replace the defaults in `params` that other calls hold too by copies."""
    for name, value in unshared:
        if params[name] is value:
            params[name] = copy_plain(value)
    return params


def choose_accept_packed(
    is_valid: Callable[[Any], bool],
    *,
    careful: Accept,
    defaults: Mapping[str, Any],
    schema: Mapping[str, Any],
) -> AcceptPacked:
    """Return the cheapest `accept` for packed arguments, without `complete_steps`.

    They are packed as MessagePack.

    What comes back from the packing is a copy of plain values at every depth. If it equals the
    arguments, they were plain too: no NaN, no lone surrogate; of a subclass it is what that holds.
    Where the schema does not look, so that bytes, times and numbers as keys could pass, a second
    validator does. All of it is done by compiled code, so that nesting costs next to nothing.

    Args:
        is_valid: The compiled schema.
        careful: Accepts any value, but is slower.
        defaults: The defaults of the optional parameters.
        schema: The schema.
    """
    has_integers = "integer" in str(schema)
    if is_sealed(schema, containers=_DEEP):
        accept = _accept_packed(is_valid, careful, defaults, has_integers)
    else:
        accept = _accept_packed_nested(is_valid, careful, defaults, has_integers)
    # Most tools take no containers, and need no types of msgspec.
    from tool_engine.validation.typed_reader import reader_of

    read = reader_of(schema)
    if read is None:
        return accept
    how = _accept_flat if is_sealed(schema, containers=1) else _accept_at_once
    return how(read, accept, defaults)


def _accept_flat(
    read: Callable[[bytes], dict[str, Any]],
    judge: AcceptPacked,
    defaults: Mapping[str, Any],
) -> AcceptPacked:
    most = min(LARGE, MAX_VALUES)

    def accept(params: Any, packed: bytes) -> dict[str, Any] | None:
        try:
            # A dict compares its keys itself, and what is no container has no part to lose.
            if type(params) is dict and len(packed) < most and (plain := read(packed)) == params:
                return {**defaults, **plain} if defaults else plain
        except Exception:  # noqa: BLE001 - foreign objects may raise anything when compared
            return judge(params, packed)
        return judge(params, packed)

    return accept


def _accept_at_once(
    read: Callable[[bytes], dict[str, Any]],
    judge: AcceptPacked,
    defaults: Mapping[str, Any],
) -> AcceptPacked:
    # Each value takes a byte at least.
    most = min(LARGE, MAX_VALUES)
    encode = msgspec.msgpack.Encoder().encode

    def accept(params: Any, packed: bytes) -> dict[str, Any] | None:
        try:
            # What calls itself equal to anything may still have lost a part.
            if len(packed) < most and (plain := read(packed)) == params and encode(plain) == packed:
                return {**defaults, **plain} if defaults else plain
        except Exception:  # noqa: BLE001 - foreign objects may raise anything when compared
            return judge(params, packed)
        return judge(params, packed)

    return accept


def _accept_packed(
    is_valid: Callable[[Any], bool],
    careful: Accept,
    defaults: Mapping[str, Any],
    has_integers: bool,
) -> AcceptPacked:
    decode = msgspec.msgpack.Decoder().decode

    def accept(params: Any, packed: bytes) -> dict[str, Any] | None:
        try:
            plain = decode(packed) if len(packed) < LARGE else unpack_value(packed)
            is_odd = plain != params or type(plain) is not dict
            if is_odd or (has_integers and has_whole_float(packed)):
                return careful(params)
            if is_valid(plain):
                return {**defaults, **plain} if defaults else plain
        except Exception:  # noqa: BLE001 - foreign objects may raise anything when compared
            return careful(params)
        return None

    return accept


def _accept_packed_nested(
    is_valid: Callable[[Any], bool],
    careful: Accept,
    defaults: Mapping[str, Any],
    has_integers: bool,
) -> AcceptPacked:
    decode = msgspec.msgpack.Decoder().decode
    is_plain = plain_json().is_valid
    # Each value takes a byte at least, so that fewer bytes cannot hold too many of them.
    most = MAX_VALUES

    def accept(params: Any, packed: bytes) -> dict[str, Any] | None:
        try:
            plain = decode(packed) if len(packed) < LARGE else unpack_value(packed)
            if (
                plain != params
                or type(plain) is not dict
                or (has_integers and has_whole_float(packed))
                or (len(packed) > most and count_values(plain) > most)
                or not is_plain(params)
            ):
                return careful(params)
            if is_valid(plain):
                return {**defaults, **plain} if defaults else plain
        except Exception:  # noqa: BLE001 - as above; what the validator does not know raises, too
            return careful(params)
        return None

    return accept


def has_whole_float(packed: bytes) -> bool:
    """Return True if a float of a whole number may be in it, where an integer may be meant."""
    at = packed.find(_FLOAT)
    for _ in range(_MOST_FLOATS):
        if at < 0:
            return False
        # Any byte may be the one; what is no float looks like one with a fraction, or is careful.
        if at + 9 <= len(packed) and unpack_from(">d", packed, at + 1)[0].is_integer():
            return True
        at = packed.find(_FLOAT, at + 1)
    return True


def is_sealed(schema: Any, *, containers: int) -> bool:
    """True if `schema` checks every value that it accepts, and bounds their number.

    Args:
        schema: JSON Schema.
        containers: How many more levels of objects may be gone into.
    """
    if not isinstance(schema, Mapping):
        return False
    declared = schema.get("type", "any")
    types = [declared] if isinstance(declared, str) else list(declared)
    if _SCALARS.issuperset(types):
        return True
    return (
        types == ["object"]
        and containers > 0
        and schema.get("additionalProperties") is False
        and "patternProperties" not in schema
        and all(
            is_sealed(below, containers=containers - 1)
            for below in schema.get("properties", {}).values()
        )
    )


@cache
def plain_json() -> jsonschema_rs.Draft202012Validator:
    """Return a validator of what JSON can hold, as deep as arguments may be nested."""
    levels: dict[str, Any] = {
        f"{level}": {
            "type": [*_SCALARS, "array", "object"],
            "items": {"$ref": f"#/$defs/{level + 1}"},
            "additionalProperties": {"$ref": f"#/$defs/{level + 1}"},
        }
        for level in range(MAX_DEPTH)
    }
    levels[f"{MAX_DEPTH}"] = {"type": [*_SCALARS]}
    return build_validator({"$ref": "#/$defs/0", "$defs": levels})
