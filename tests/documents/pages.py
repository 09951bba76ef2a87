"""Which lines of a page cannot be typed as they stand, and which of its links lead nowhere?

`make docs` asks this of each page; Sphinx itself looks at links between pages of docs/.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from inspect import CO_COROUTINE
from pathlib import Path

LONGEST = 88
"""Characters of a line of code, as wide as a page shows without scrolling."""
PRINTED = {None, "", "text", "output"}
"""What is read and not typed: no block, and kinds of blocks that wrap."""
FENCE = re.compile(r"\s*```+ *([\w-]*)")
RECORDED = re.compile(r'data: |\{"')
"""A line of a wire or of a log, which has no other place to be broken."""
HIDDEN = re.compile(r"<!--.*?-->", re.DOTALL)
TYPED = re.compile(r"^```python\n(?!# [\w./-]+\.py\n)(.*?)^```", re.DOTALL | re.MULTILINE)
"""A block of Python that is no file."""
BLOCK = re.compile(r"^```(?:python|console|bash|yaml)\n(.*?)^```", re.DOTALL | re.MULTILINE)
NAMED = re.compile(r"pip install [^\n]*?\[([\w,-]+)\]")
EXTRAS = {
    "sql": re.compile(
        r"records sqlite:|\"sqlite:///|^ +sources:$|"
        r"^\$ tool-engine (?:events|history|sessions|stats|task)\b",
        re.M,
    ),
    "postgres": re.compile(r"records[ =]\"?postgresql:|ClusterConfig\("),
    "server": re.compile(r"tool_engine\.server|^\$ tool-engine (?:serve|token)\b|--studio", re.M),
    "mcp": re.compile(r"tool_engine\.mcp_server|^\$ tool-engine mcp serve", re.M),
    "otel": re.compile(r"observability\.opentelemetry"),
    "prometheus": re.compile(r"observability\.prometheus"),
    "openai": re.compile(r"= chat_model\(\s*\"openai|OpenAIModel\("),
    "repair": re.compile(r"repair=True"),
}
"""Extras, and what a block cannot do without each."""
BEGIN = "**Before you begin.**"
DASHES = re.compile(r"\|[\s:|-]+\|")
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ +(.*)$", re.MULTILINE)


def find_long_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield number and reason of each line of code that a page would have to scroll for."""
    kind: str | None = None
    for number, line in enumerate(text.splitlines(), 1):
        if fence := FENCE.match(line):
            kind = fence[1] if kind is None else None
        elif kind not in PRINTED and len(line) > LONGEST and not RECORDED.match(line):
            yield number, f"a line of code has {len(line)} characters: at most {LONGEST}"


def find_await_without_prompt(text: str) -> Iterator[tuple[int, str]]:
    """Yield line and reason of the first block with `await` where no prompt for it is named."""
    seen = HIDDEN.sub(lambda each: "\n" * each[0].count("\n"), text)
    if "python -m asyncio" in seen:
        return
    for block in TYPED.finditer(seen):
        code = compile(block[1], "page", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
        if code.co_flags & CO_COROUTINE:
            line = seen[: block.start()].count("\n") + 1
            yield line, "a block has `await`: say that it is for the prompt of `python -m asyncio`"
            return


def find_late_beginning(text: str) -> Iterator[tuple[int, str]]:
    """Yield line and reason where what a page needs stands below its first section."""
    place = text.find(BEGIN)
    above = text[: max(place, 0)]
    if "\n## " in above or above.rstrip().endswith(":"):
        reason = "what a reader needs first stands above all sections, between whole sentences"
        yield above.count("\n") + 1, reason


def find_unnamed_extras(text: str) -> Iterator[tuple[int, str]]:
    """Yield line and reason of each block that needs an extra which no line before it names."""
    seen = HIDDEN.sub(lambda each: "\n" * each[0].count("\n"), text)
    for block in BLOCK.finditer(seen):
        named = {name for each in NAMED.findall(seen[: block.start()]) for name in each.split(",")}
        if "postgres" in named:
            named.add("sql")
        for extra in EXTRAS.keys() - named:
            if found := EXTRAS[extra].search(block[0]):
                line = seen[: block.start() + found.start()].count("\n") + 1
                yield line, f"this needs `pip install 'tool-engine[{extra}]'`: say so before it"


def find_broken_tables(text: str) -> Iterator[tuple[int, str]]:
    """Yield line and reason of each first row of a table that has no line of dashes below it."""
    lines = ["", *HIDDEN.sub(lambda each: "\n" * each[0].count("\n"), text).splitlines(), ""]
    is_code = False
    for number, line in enumerate(lines[:-1]):
        is_code ^= FENCE.match(line) is not None
        is_first = line.startswith("|") and not lines[number - 1].startswith("|")
        if is_first and not is_code and not DASHES.fullmatch(lines[number + 1]):
            yield number, "these rows are shown as text: a table goes on without an empty line"


def find_no_reader(text: str) -> Iterator[tuple[int, str]]:
    """Yield the first line below the title where it does not say whom the page is for."""
    _, _, below = text.partition("\n")
    if not below.startswith(("\n*For ", "\nFor ")):
        yield 3, "the first line says whom the page is for, and what they have after it: *For ...*"


def find_broken_links(page: Path) -> Iterator[tuple[int, str]]:
    """Yield line and reason of each link of a page that leads to no file, or to no heading."""
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        for target in LINK.findall(line):
            if target.startswith(("https://", "mailto:")):
                continue
            name, _, anchor = target.partition("#")
            place = page.parent / name if name else page
            if not place.exists():
                yield number, f"there is no {name}"
            elif anchor and anchor not in find_anchors(place):
                yield number, f"{name} has no heading #{anchor}"


def find_anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings."""
    headings = HEADING.findall(page.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings}
