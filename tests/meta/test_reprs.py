"""Does rich show of a structure what its `repr` hides?"""

from __future__ import annotations

import contextlib
import importlib

import msgspec

from tests.meta.sources import module_name, modules


def test_rich_shows_what_the_repr_shows() -> None:
    """It reads the fields of a structure, whatever its `repr` says: `rich.print`, tracebacks."""
    for path in modules():
        if path.stem != "__main__":
            with contextlib.suppress(ImportError):  # of an extra that is not there
                importlib.import_module(module_name(path))
    assert not [
        f"{kind.__module__}.{kind.__qualname__}: set __rich_repr__ to show_repr or show_fields"
        for kind in list_structures(msgspec.Struct)
        if kind.__repr__ is not msgspec.Struct.__repr__
        and kind.__rich_repr__ is msgspec.Struct.__rich_repr__
    ]


def list_structures(above: type[msgspec.Struct]) -> list[type[msgspec.Struct]]:
    """The package's structures of a kind."""
    kinds = [kind for each in above.__subclasses__() for kind in (each, *list_structures(each))]
    return [kind for kind in kinds if kind.__module__.startswith("tool_engine.")]
