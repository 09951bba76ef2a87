"""What was meant by an attribute that an engine has not?"""

from __future__ import annotations

from typing import Final

from tool_engine.model.checks.nearness import suggest_near

_PARTS: Final = ("controller", "store", "config")
"""The parts of an engine that have methods of their own."""
_MEANT: Final = {
    "call": "execute",
    "call_tool": "execute",
    "invoke": "execute",
    "run": "execute",
    "run_tool": "execute",
    "add_tool": "register_tool",
    "history": "query_call_records",
    "records": "query_call_records",
    "list_tools": "list_all",
    "tools": "list_all",
    "stats": "get_statistics",
}
"""What other libraries, and the command line, call it -> its name here."""


def make_attribute_error(engine: object, name: str) -> AttributeError:
    """Return the error about an attribute of an engine that is not there."""
    text = f"{type(engine).__name__!r} object has no attribute {name!r}"
    if not name.startswith("_"):
        text += _suggest_name(engine, name)
    return AttributeError(text, name=name, obj=engine)


def _suggest_name(engine: object, name: str) -> str:
    if meant := _MEANT.get(name):
        return f"; it is engine.{meant}"
    for part in _PARTS:
        if name in dir(vars(engine).get(part)):
            return f"; it is engine.{part}.{name}"
    return suggest_near(name, [each for each in dir(engine) if not each.startswith("_")])
