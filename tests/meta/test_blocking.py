"""Does the quick look for blocking calls say what the library's own one says?"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from blockbuster import BlockingError

import tool_engine.errors
from tests.blocking import LIBRARYS_OWN, wrap_blocking

OURS = str(tool_engine.errors.__file__)
FOLDER = OURS.rpartition("/")[0]
STACKS = {
    "a test": [("/elsewhere/test_it.py", "test")],
    "the package": [(OURS, "raise_it")],
    "a library that the package calls": [(OURS, "raise_it"), ("/lib/json.py", "loads")],
    "the package, called by a library": [("/lib/run.py", "run"), (OURS, "raise_it")],
    "where it is allowed": [(f"{FOLDER}/calls/blocking.py", "start")],
    "below where it is allowed": [(f"{FOLDER}/calls/blocking.py", "start"), (OURS, "raise_it")],
    "above where it is allowed": [(OURS, "raise_it"), ("/lib/linecache.py", "checkcache")],
    "another function there": [(f"{FOLDER}/calls/blocking.py", "begin")],
    "a function of that name elsewhere": [(OURS, "start")],
    "a folder of a similar name": [(f"{FOLDER}_too/errors.py", "raise_it")],
}
ALLOWED = [("tool_engine/calls/blocking.py", {"start", "end"}), ("linecache.py", {"checkcache"})]


def call_through(stack: list[tuple[str, str]], function: Any) -> Any:
    """Calls a function with such frames below it, the first one outermost."""
    for file, name in reversed(stack):
        scope = {"inner": function}
        exec(compile(f"def {name}(): return inner()", file, "exec"), scope)  # noqa: S102 - a frame
        function = scope[name]
    return function()


def say(wrap: Any, stack: list[tuple[str, str]], *, is_harmless: bool = False) -> str:
    """Says what comes of a call that such a stack makes, in a loop and outside of one."""
    wrapped = wrap((FOLDER + "/",), (), lambda: "done", "it", ALLOWED, lambda: is_harmless)

    async def in_a_loop() -> str:
        try:
            return str(call_through(stack, wrapped))
        except BlockingError as error:
            return str(error)

    return f"{call_through(stack, wrapped)}, {asyncio.run(in_a_loop())}"


@pytest.mark.parametrize("is_harmless", [False, True])
@pytest.mark.parametrize("stack", STACKS)
def test_it_says_the_same(stack: str, is_harmless: bool) -> None:
    """Of each stack, and of calls that do not block as they are made."""
    told = [
        say(wrap, STACKS[stack], is_harmless=is_harmless) for wrap in (LIBRARYS_OWN, wrap_blocking)
    ]
    assert told[0] == told[1]


def test_both_answers() -> None:
    """The table has stacks of both kinds."""
    assert {say(wrap_blocking, stack) for stack in STACKS.values()} == {
        "done, done",
        "done, Blocking call to it",
    }
