"""Does a definition that was written to hurt the loader end as quickly as any other?

Each text is as large as a definition may be. `pytest-timeout` ends a test that hangs.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import pytest

from tests.effort import IS_WHOLE
from tool_engine import DefinitionError, Tool, ToolConfigLoader
from tool_engine.catalog.definition import workload
from tool_engine.catalog.limits import (
    MAX_BYTES,
    MAX_LARGE_PATTERNS,
    MAX_PATTERNS,
    MAX_PROBLEMS,
    MAX_SCHEMAS,
)

HEAD = "name: t\ndescription: d\n"
MOST = 100 * 1024 * 1024


def full(piece: str, head: str = "", tail: str = "") -> str:
    """A text of as many pieces as a file may hold."""
    room = MAX_BYTES - len(head.encode()) - len(tail.encode())
    return head + piece * (room // len(piece.encode())) + tail


def parameter(text: str) -> str:
    return f"{HEAD}parameters:\n- {{name: p, description: d, {text}}}\n"


def many(count: int, text: Callable[[int], str]) -> str:
    return ",".join(text(number) for number in range(count))


def load(text: str) -> list[Tool] | list[str]:
    """The tools, or the messages."""
    try:
        return list(ToolConfigLoader().load_tools(text, "x.yaml"))
    except DefinitionError as error:
        problems, whole = error.problems, str(error)
    assert len(problems) <= MAX_PROBLEMS
    assert len(whole) < 300_000
    return [problem.message for problem in problems]


PIECES = [
    *(
        "[",
        "{",
        "- ",
        "? ",
        "[[],",
        "a: ",
        "- a: ",
        "{a: ",
        ": ",
        ":",
        "|",
        ">",
        "&a ",
        "*a ",
        "!a ",
        "!",
    ),
    *("\t", "\t\n", " ", "\n", "\r", " \n", "#", "#\n", "%TAG !a! x\n", "%YAML 1.2\n", "%X\n", "%"),
    *(
        "---\n",
        "--- a\n",
        "--- *a\n",
        "---\na: 1\n...\n",
        "...\n",
        f"---\n{HEAD}",
        "---\nname: 1\n",
    ),
    *(
        "a: 1\n",
        "a: *x\n",
        "😀: 1\n",
        "a\n",
        "a ",
        "'",
        '"',
        "''",
        '"\\',
        "9",
        "-",
        "0x",
        "1e9",
        "~\n",
    ),
]


@pytest.mark.parametrize("piece", PIECES)
def test_repetition(piece: str) -> None:
    """K3: 1 MiB of anything is refused, or read, at once."""
    assert all(isinstance(found, str) for found in load(full(piece)))


INSIDE = [
    ("x", "a: ", ""),
    ("x\n ", "a: ", ""),
    ("\n", "a: x", " y"),
    (" x\n", "a: |\n", ""),
    ("\n", "a: >\n", ""),
    ("x", "", ": 1"),
    ("x", "? ", "\n: 1\n"),
    ("x", '"', '": 1\n'),
    ("\\n", 'a: "', '"'),
    ("x\n ", 'a: "', '"'),
    ("''", "a: '", "'"),
    ("a,", "[", "]"),
    ("a: b,", "{", "}"),
    ("*a,", "[&a 1,", "]"),
    ("!!s%74r x,", "[", "]"),
    ("9", "a: ", ""),
    ("f", "a: 0x", ""),
    ("9", "a: 1e", ""),
    ("- !a x\n", "%TAG ! " + "t" * 900_000 + "\n---\n", ""),
    ("x", "&", " y"),
    ("x", "!", " y"),
    ("a|", f"{HEAD}parameters: [{{name: p, type: string, description: d, pattern: '", "'}]"),
    ("x", f"{HEAD}? ", "\n: 1\n"),
    ("1,", f"{HEAD}tags: [", "]"),
]


@pytest.mark.parametrize(("piece", "head", "tail"), INSIDE)
def test_repetition_inside(piece: str, head: str, tail: str) -> None:
    """K3: the same inside a text, a key, a number, a list, an anchor, a pattern."""
    assert all(isinstance(found, str) for found in load(full(piece, head, tail)))


SLOW = [
    # what is found late, or a hundred times, in a text with many places
    "x: [" + "1," * 15_000 + "*a," * 95 + "]",
    "x: [" + "[]," * 15_000 + "{a: 1, a: 2}," * 95 + "]",
    "".join(f"k{number}: \n" for number in range(9_000)) + "k5: 1\n" * 90,
    HEAD + "".join(f"kkk{number}: 1\n" for number in range(9_000)),
    HEAD + "tags: [" + "a," * 15_000 + "1," * 500 + "]",
    "".join(f"---\nnam: t{number}\ndescription: d\n" for number in range(19_000)),
    # rules that are dear together
    parameter(f"type: integer, enum: [{many(15_000, str)}, x]"),
    parameter(f"type: string, default: x, enum: [{many(15_000, lambda n: f'a{n}')}]"),
    parameter(f"type: string, schema: {{{many(9_000, lambda n: f'kk{n}: 1')}}}"),
    parameter(f"type: object, schema: {{oneOf: [{many(9_000, lambda n: '{}')}]}}"),
    parameter(
        f"type: object, schema: {{patternProperties: {{{many(6_000, lambda n: f'a{n}: {{}}')}}}}}"
    ),
    parameter(
        f"type: array, items: {{schema: {{oneOf: [{many(900, lambda n: f'{{const: a{n}}}')}]}}}}, "
        f"default: [{many(9_000, lambda n: f'b{n}')}]"
    ),
    parameter("type: string, pattern: '((a{100}){100}){100}'"),
    parameter(f"type: string, pattern: '{'(' * 4000}a{')' * 4000}'"),
    HEAD
    + "parameters:\n"
    + "".join(
        f"- {{name: p{n}, type: string, description: d, pattern: '\\p{{L}}{{1,140}}{n}'}}\n"
        for n in range(2_000)
    ),
    HEAD
    + "concurrency: {key: params.zz}\nparameters:\n"
    + "".join(f"- {{name: z{n}{'z' * 100}, type: string, description: d}}\n" for n in range(2_500)),
]


@pytest.mark.parametrize("text", SLOW, ids=[str(number) for number in range(len(SLOW))])
def test_work_is_bounded(text: str) -> None:
    """K3: no pair of loops over a large definition, and no rule that explodes."""
    assert all(isinstance(found, str) for found in load(text))


def test_patterns_past_the_limit_are_not_compiled() -> None:
    """K3: large ones take 30 ms each, so those of 2,000 parameters took a minute."""
    before = workload._can_compile.cache_info().misses
    load(SLOW[14].replace("1,140", "1,139"))
    compiled = workload._can_compile.cache_info().misses - before
    assert MAX_LARGE_PATTERNS < compiled < 4 * MAX_LARGE_PATTERNS + MAX_PATTERNS


LARGE = {"values": full("a,", "[", "]"), "4": SLOW[4]}
"""What takes most memory: many small values, and rules."""
if IS_WHOLE:
    LARGE |= {"---": full("---\n"), "5": SLOW[5]}


@pytest.mark.parametrize("text", LARGE.values(), ids=LARGE)
def test_memory_is_bounded(text: str) -> None:
    """K3: no definition takes 100 MB while it is read."""
    load(HEAD)
    tracemalloc.start()
    try:
        load(text)
        assert tracemalloc.get_traced_memory()[1] < MOST
    finally:
        tracemalloc.stop()


def test_what_is_much_and_allowed() -> None:
    """K3: the limits leave room for what people write."""
    for text in (
        parameter(f"type: string, enum: [{many(9_000, lambda n: f'a{n}')}], default: a8999"),
        parameter(f"type: object, schema: {{anyOf: [{many(MAX_SCHEMAS - 1, lambda n: '{}')}]}}"),
        parameter("type: string, pattern: '^[\\p{L} .-]{1,100}$', default: Zoë"),
        "".join(f"---\nname: t{number}\ndescription: d\n" for number in range(5_000)),
    ):
        assert all(isinstance(tool, Tool) for tool in load(text))
