"""What is the cheapest way to see that the arguments of a call are right?

Each variant looks once at the types and once asks the compiled validator; which one a tool gets is
decided when it is compiled, so that a call pays for nothing that its tool does not declare. What a
variant cannot vouch for by type alone it hands to `careful`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from tool_engine.validation.shape import LARGEST, SMALLEST, fresh, is_encodable

__all__ = ["Accept", "AcceptPacked", "Unshared", "accept_packed", "choose_accept", "unshare"]

Accept = Callable[[Any], dict[str, Any] | None]
AcceptPacked = Callable[[Any, bytes], dict[str, Any] | None]
Unshared = tuple[tuple[str, Any], ...]
_FLOAT: Final = 0xCB
"""The byte that stands before a float in MessagePack."""
_BARE: Final = frozenset((bool, type(None)))


def choose_accept(
    is_valid: Callable[[Any], bool],
    *,
    careful: Accept,
    defaults: Mapping[str, Any],
    unshared: Unshared,
    numbers: frozenset[str],
    is_bounded: bool,
) -> Accept:
    """The cheapest `accept` for a tool.

    Args:
        is_valid: The compiled schema.
        careful: Takes any value whatever, at a price.
        defaults: The defaults of the optional parameters.
        unshared: Those of them that each call must get a copy of.
        numbers: The parameters that a float may be handed to as it is.
        is_bounded: Whether a rule depends on how large a number is.
    """
    if numbers or is_bounded:
        accept = _accept_with_numbers(is_valid, careful, defaults, numbers)
    elif defaults:
        accept = _accept_with_defaults(is_valid, careful, defaults)
    else:
        accept = _accept_bare(is_valid, careful)
    return _with_own_copies(accept, unshared) if unshared else accept


# In each variant below, a text outside ASCII is looked at for lone surrogates, which the validator
# lets pass, and an integer for its size only where a rule asks for it; a container, a subclass and
# most floats are never plain enough.


def _accept_bare(is_valid: Callable[[Any], bool], careful: Accept) -> Accept:
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
            if kind not in _BARE:
                return careful(params)
        try:
            return {**params} if is_valid(params) else None
        except ValueError:
            # A key that is no text, or that no encoding can carry.
            return None

    return accept


def _accept_with_defaults(
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
            if kind not in _BARE:
                return careful(params)
        try:
            return {**defaults, **params} if is_valid(params) else None
        except ValueError:
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
            if kind not in _BARE and (kind is not float or name not in numbers):
                return careful(params)
        try:
            return {**defaults, **params} if is_valid(params) else None
        except ValueError:
            return None

    return accept


def _with_own_copies(accept: Accept, unshared: Unshared) -> Accept:
    def accept_with_copies(params: Any) -> dict[str, Any] | None:
        accepted = accept(params)
        return None if accepted is None else unshare(accepted, unshared)

    return accept_with_copies


def unshare(params: dict[str, Any], unshared: Unshared) -> dict[str, Any]:
    """Replaces the defaults in `params` that other calls hold too by copies."""
    for name, value in unshared:
        if params[name] is value:
            params[name] = fresh(value)
    return params


def accept_packed(
    is_valid: Callable[[Any], bool],
    careful: Accept,
    defaults: Mapping[str, Any],
    unshared: Unshared,
    has_integers: bool,
) -> AcceptPacked:
    """The `accept` for arguments that were packed as MessagePack already.

    What comes back from the packing is a copy of plain values at every depth. If it equals the
    arguments, they were plain too: no subclass, no NaN, no lone surrogate, nothing that only Python
    has. All of it is done by compiled code, so that nesting costs next to nothing.
    """
    decode = msgspec.msgpack.Decoder().decode

    def accept(params: Any, packed: bytes) -> dict[str, Any] | None:
        try:
            plain = decode(packed)
            if plain != params or type(plain) is not dict or (has_integers and _FLOAT in packed):
                return careful(params)
            if is_valid(plain):
                return {**defaults, **plain} if defaults else plain
        except Exception:  # noqa: BLE001 - foreign objects may raise anything when compared
            return careful(params)
        return None

    if not unshared:
        return accept

    def accept_with_own_copies(params: Any, packed: bytes) -> dict[str, Any] | None:
        accepted = accept(params, packed)
        return None if accepted is None else unshare(accepted, unshared)

    return accept_with_own_copies
