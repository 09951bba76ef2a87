"""How does a package load a module of its own only when a name of it is first used?"""

from __future__ import annotations

import sys
from importlib import import_module

TYPE_CHECKING = False
# `tool_engine` imports this before anything else, and typing takes longer than all of that.
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import ModuleType
    from typing import Any


def find_later(package: str, modules: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package that imports names at their first use.

    Args:
        package: Its full name.
        modules: The names of each module, with spaces between, by its place inside of the package;
            with a point before it, beside the package.
    """
    places = {name: module for module, names in modules.items() for name in names.split()}

    def find(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(_import_module(f".{places[name]}", package), name)
        # Found without this function from now on.
        setattr(sys.modules[package], name, value)
        return value

    return find


def _import_module(place: str, package: str) -> ModuleType:
    """Import a module without the garbage collector, which would visit what stays many times."""
    import gc  # not before Ctrl-C is heard

    was_on = gc.isenabled()
    gc.disable()
    try:
        module = import_module(place, package)
        # All of it counts as old: else the next small collection visits it at once. What a program
        # has frozen itself stays frozen, and other Pythons have nothing to freeze.
        if was_on and hasattr(gc, "freeze") and not gc.get_freeze_count():
            gc.freeze()
            gc.unfreeze()
        return module
    finally:
        if was_on:
            gc.enable()
