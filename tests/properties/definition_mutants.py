"""How does a tool file look after an accident: a cut, a slip of the hand, a merge gone wrong?"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Final

__all__ = ["SAMPLES", "mutant"]

RICH: Final = """\
# everything that a definition can say
name: pay_invoice
version: "2.10"
description: >-
  Pays an invoice.
  It cannot be undone; ask first.
category: http
tags: [money, 'no', "on", 1:30]
author: 'O''Neill: accounts'
icon: "\\U0001F4B6"
status: testing
timeout: 12.5
effect: write
idempotent: true
retry: {attempts: 3, backoff: 1e-1, on: [timeout]}
rate: 10/min
concurrency:
  bucket: bank
  weight: 2
  key: params.invoice
  key_limit: 4
parameters:
  - name: invoice
    type: string
    required: true
    description: "Number, such as \\"2024-001\\""
    validation: {pattern: '^[0-9]{4}-[0-9]+$', min_length: 6}
  - name: amount
    type: number
    description: How much
    min: 0.01
    max: 1000
    default: 10
  - {name: code, type: integer, description: A code, enum: [0x1F, 0o17, -3, +4], default: 31}
  - name: lines
    type: array
    description: |
      The lines:
        one for each item
    items: {type: object, properties: {text: string, count: {type: integer, required: true}}}
    max_items: 20
  - name: token
    type: string
    secret: true
    description: Who pays
    schema: {format: uuid, examples: [~, null, 012, .5, 2024-01-01]}
entry:
  type: http
  request:
    method: POST
    url: "https://bank.example/{invoice}"
    headers: {Accept: application/json, X-Version: "1.10"}
    json: {amount: "{amount}", nested: [[1, 2.50], {deep: [yes, true]}]}
  response: {select: result.id}
output:
  type: object
  properties:
    id: string
    when: {type: string, description: A date}
  required: [id]
"""
LIST: Final = """\
--- # two tools
name: one
description: First
...
---
name: two
description: Second
parameters:
- name: p
  description: d
  type: boolean
  default: False
"""
SAMPLES: Final = [
    RICH,
    LIST,
    *(
        file.read_text(encoding="utf-8")
        for file in sorted((Path(__file__).parents[2] / "tools").glob("*.yaml"))
    ),
]
"""Right tool files of many kinds."""

_PIECES: Final = [
    *(
        "\n",
        "\r",
        "\r\n",
        " ",
        "  ",
        "\t",
        ":",
        ": ",
        "- ",
        "? ",
        "#",
        " #",
        "'",
        '"',
        "|",
        ">",
        "\\",
    ),
    *(
        "[",
        "]",
        "{",
        "}",
        ",",
        "&a ",
        "*a",
        "!",
        "! ",
        "!!str ",
        "!!int ",
        "!x ",
        "%",
        "@",
        "`",
        "~",
    ),
    *(
        "---\n",
        "...\n",
        "<<: ",
        "\x00",
        "\x07",
        "\x85",
        "\xa0",
        "\u2028",
        "\u202e",
        "\ufeff",
        "\ud800",
    ),
    *("0", "1e9", "1.10", "0x1F", "012", "1_0", "1:30", ".inf", "no", "null", "true", "2024-01-01"),
    *("\\x00", "\\u0000", "\\ud800", "é", "😀", "name: x\n", "effect: read\n", "description: d\n"),
    *("%YAML 1.1\n---\n", "%TAG ! x\n", "|2-\n", ">+\n", "[[[[", "}}}}", "a:1", "{a:1}", "- - - "),
]


def mutant(text: str, random: Random, others: list[str] | None = None) -> str:
    """`text` after one to four accidents."""
    for _ in range(random.choice((1, 1, 1, 2, 2, 3, 4))):
        accident = random.choice(_ACCIDENTS)
        text = accident(text, random)
        if random.random() < 0.05:
            text = _splice(text, random.choice(others or SAMPLES), random)
    return text


def _cut(text: str, random: Random) -> str:
    return text[: random.randrange(len(text) + 1)]


def _remove(text: str, random: Random) -> str:
    start = random.randrange(len(text) + 1)
    return text[:start] + text[start + random.choice((1, 1, 1, 2, 3, 8)) :]


def _insert(text: str, random: Random) -> str:
    at = random.randrange(len(text) + 1)
    return text[:at] + random.choice(_PIECES) * random.choice((1, 1, 1, 2, 60)) + text[at:]


def _swap_characters(text: str, random: Random) -> str:
    at = random.randrange(len(text) + 1)
    return text[:at] + text[at : at + 2][::-1] + text[at + 2 :]


def _change_lines(change: Callable[[list[str], int, Random], None]) -> Callable[[str, Random], str]:
    def accident(text: str, random: Random) -> str:
        lines = text.splitlines(keepends=True) or [""]
        change(lines, random.randrange(len(lines)), random)
        return "".join(lines)

    return accident


def _double(lines: list[str], number: int, random: Random) -> None:
    lines.insert(random.randrange(len(lines) + 1), lines[number])


def _drop(lines: list[str], number: int, random: Random) -> None:
    del lines[number : number + random.choice((1, 1, 2, 5))]


def _swap(lines: list[str], number: int, random: Random) -> None:
    other = random.randrange(len(lines))
    lines[number], lines[other] = lines[other], lines[number]


def _indent(lines: list[str], number: int, random: Random) -> None:
    for at in range(number, min(len(lines), number + random.choice((1, 1, 3)))):
        if random.random() < 0.5:
            lines[at] = random.choice((" ", "  ", "\t")) + lines[at]
        else:
            lines[at] = lines[at].removeprefix(random.choice((" ", "  ")))


def _splice(text: str, other: str, random: Random) -> str:
    start = random.randrange(len(other) + 1)
    at = random.randrange(len(text) + 1)
    return text[:at] + other[start : start + random.choice((10, 40, 200, 2000))] + text[at:]


_ACCIDENTS: Final[list[Callable[[str, Random], str]]] = [
    _cut,
    _remove,
    _insert,
    _insert,
    _swap_characters,
    *map(_change_lines, (_double, _drop, _swap, _indent)),
]
