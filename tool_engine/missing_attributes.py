"""What was meant by an attribute that a public object has not?"""

from __future__ import annotations

from typing import Final, NamedTuple

from tool_engine.model.checks.nearness import suggest_near


class _Known(NamedTuple):
    word: str
    """What a program calls such an object."""
    meant: dict[str, str]
    """What other libraries, and the command line, call it -> its name here."""
    parts: tuple[str, ...] = ()
    """The parts that have methods of their own."""


_CALLS: Final = dict.fromkeys(("call", "call_tool", "invoke", "ainvoke", "run_tool"), "execute")
_KNOWN: Final = {
    "ToolEngine": _Known(
        "engine",
        {
            **_CALLS,
            "run": "execute",
            "add_tool": "register_tool",
            "get_tool": "get",
            "history": "query_call_records",
            "records": "query_call_records",
            "list_tools": "list_all",
            "tools": "list_all",
            "stats": "get_statistics",
        },
        ("controller", "store", "config"),
    ),
    "ToolExecutionResult": _Known(
        "result",
        {
            **dict.fromkeys(
                ("content", "data", "response", "result", "return_value", "text", "value"),
                "output",
            ),
            **dict.fromkeys(
                ("failed", "is_error", "isError", "ok", "succeeded", "success"), "is_success"
            ),
            **dict.fromkeys(("exception", "message", "error_message"), "error"),
            **dict.fromkeys(("duration", "elapsed"), "execution_time"),
            "id": "call_id",
            "name": "tool_name",
            "status": "outcome",
        },
    ),
    "ToolSession": _Known(
        "session",
        {
            **_CALLS,
            "run": "process",
            "id": "session_id",
            "list_tools": "list_all",
            "add_tool": "register_tool",
            "prompt": "system_prompt",
        },
    ),
    "ToolSubAgent": _Known(
        "sub_agent",
        {
            **_CALLS,
            "run": "execute",
            **dict.fromkeys(("batch", "abatch", "gather", "run_all"), "execute_batch"),
            "tools": "enabled_tools",
            "summary": "get_execution_summary",
            "reset": "clear_history",
            "results": "history",
        },
    ),
    "AgentLoop": _Known(
        "loop",
        dict.fromkeys(("ainvoke", "arun", "ask", "chat", "invoke", "send"), "run"),
        ("session",),
    ),
}


def explain_attribute(owner: object, name: str) -> str:
    """Return what to say of an attribute that a public object has not."""
    text = f"{type(owner).__name__!r} object has no attribute {name!r}"
    return text if name.startswith("_") else text + _suggest_name(owner, name)


def _suggest_name(owner: object, name: str) -> str:
    kinds = (each.__name__ for each in type(owner).__mro__)
    known = next((_KNOWN[each] for each in kinds if each in _KNOWN), _Known("it", {}))
    if meant := known.meant.get(name):
        return f"; it is {known.word}.{meant}"
    for part in known.parts:
        # Not by `getattr`: a part that is not there yet would be asked for without end.
        if name in dir(vars(owner).get(part)):
            return f"; it is {known.word}.{part}.{name}"
    return suggest_near(name, [each for each in dir(owner) if not each.startswith("_")])
