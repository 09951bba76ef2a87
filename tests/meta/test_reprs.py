"""Does rich show of a structure what its `repr` hides?"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable
from types import CellType, NoneType
from typing import Any, get_args, get_origin

import msgspec

import tool_engine
from tests.meta.sources import module_name, modules
from tool_engine.redaction import OwnSecrets


def test_rich_shows_what_the_repr_shows() -> None:
    """It reads the fields of a structure, whatever its `repr` says: `rich.print`, tracebacks."""
    load_all()
    assert not [
        f"{kind.__module__}.{kind.__qualname__}: set __rich_repr__ to show_repr or show_fields"
        for kind in list_structures(msgspec.Struct)
        if kind.__repr__ is not msgspec.Struct.__repr__
        and kind.__rich_repr__ is msgspec.Struct.__rich_repr__
    ]


def test_no_private_field_shows_what_no_public_one_does() -> None:
    """`msgspec.structs.asdict`, encoders and rich read those, too: `tests/calls/test_walkers.py`.

    What holds arguments or outputs stands in a cell, which nothing walks through.
    """
    load_all()
    given = {getattr(tool_engine, name) for name in tool_engine.__all__}
    assert not [
        f"{kind.__qualname__}.{field.name} is a {field.type}: put it in a CellType"
        for kind in list_structures(msgspec.Struct)
        if given.intersection(kind.__mro__)
        for field in msgspec.structs.fields(kind)
        if field.name.startswith("_") and not is_harmless(field.type)
    ]


def is_harmless(annotation: Any) -> bool:
    """Whether a walker shows nothing of such a value, or only what is no secret."""
    if get_origin(annotation) is Callable:
        return True
    kinds = [each for each in get_args(annotation) if each is not Ellipsis] or [annotation]
    if kinds != [annotation]:
        return all(map(is_harmless, kinds))
    return annotation in (NoneType, bool, str, CellType, OwnSecrets)


def load_all() -> None:
    """Import all modules of the package."""
    for path in modules():
        if path.stem != "__main__":
            with contextlib.suppress(ImportError):  # of an extra that is not there
                importlib.import_module(module_name(path))


def list_structures(above: type[msgspec.Struct]) -> list[type[msgspec.Struct]]:
    """The package's structures of a kind."""
    kinds = [kind for each in above.__subclasses__() for kind in (each, *list_structures(each))]
    return [kind for kind in kinds if kind.__module__.startswith("tool_engine.")]
