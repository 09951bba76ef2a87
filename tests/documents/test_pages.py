"""Does `make docs` find what cannot be typed or followed, and nothing else?"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.documents.examples import documents
from tests.documents.pages import (
    LONGEST,
    find_await_without_prompt,
    find_broken_links,
    find_broken_tables,
    find_late_beginning,
    find_long_lines,
    find_no_reader,
    find_unnamed_extras,
)

ROOT = Path(__file__).parents[2]
GENERAL = {"README", "index", "changelog", "rooms", "messages"}
"""Pages for all readers, and two that a program writes."""
PAGES = [*documents(ROOT), *sorted((ROOT / ".github").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_each_line_can_be_typed_and_each_link_followed(page: Path) -> None:
    """A line that a reader types stands on the page without scrolling."""
    text = page.read_text(encoding="utf-8")
    assert list(find_long_lines(text)) == []
    assert list(find_await_without_prompt(text)) == []
    assert list(find_late_beginning(text)) == []
    assert list(find_unnamed_extras(text)) == []
    assert list(find_broken_tables(text)) == []
    assert list(find_broken_links(page)) == []


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if page.parent.name != ".github" and page.stem not in GENERAL],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_a_page_says_whom_it_is_for(page: Path) -> None:
    assert list(find_no_reader(page.read_text(encoding="utf-8"))) == []


def test_a_table_that_ends_in_the_middle() -> None:
    head = "# Page\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"
    assert not list(find_broken_tables(f"{head}| 3 | 4 |\n"))
    assert not list(find_broken_tables(f"{head}\n```text\n| 3 | 4 |\n```\n"))
    assert [line for line, _ in find_broken_tables(f"{head}\n| 3 | 4 |\n")] == [7]


@pytest.mark.parametrize(
    ("kind", "is_typed"), [("yaml", True), ("console", True), ("output", False)]
)
def test_a_long_line(kind: str, is_typed: bool) -> None:
    """What is typed is short; what is printed, and what stands between blocks, may be long."""
    long, short = "x" * (LONGEST + 1), "x" * LONGEST
    text = f"{long}\n\n```{kind}\n{short}\n{long}\ndata: {long}\n```\n\n{long}\n"
    assert [number for number, _ in find_long_lines(text)] == ([5] if is_typed else [])


def test_a_block_for_a_prompt_that_no_line_names() -> None:
    """What is hidden, and what is a file, is not typed."""
    block = "```python\nx = await y\n```\n"
    assert [line for line, _ in find_await_without_prompt(f"# Page\n\n{block}")] == [3]
    hidden = f"<!--\nat python -m asyncio\n-->\n{block}"
    assert [line for line, _ in find_await_without_prompt(hidden)] == [4]
    assert not list(find_await_without_prompt(f"At `python -m asyncio`:\n{block}"))
    for other in ("# a.py\nasync def f():\n    await y", "async def f():\n    await y"):
        assert not list(find_await_without_prompt(f"```python\n{other}\n```\n"))


@pytest.mark.parametrize(
    ("above", "lines"),
    [
        ("# Page\n\nIt works.\n\n", []),
        ("# Page\n\nIt works:\n\n", [5]),
        ("# Page\n\n## Use\n\nIt works.\n\n", [7]),
    ],
)
def test_what_is_needed_first(above: str, lines: list[int]) -> None:
    """It stands above all sections, and in no sentence."""
    found = find_late_beginning(f"{above}**Before you begin.** Nothing.\n\n## More\n")
    assert [line for line, _ in found] == lines
    assert not list(find_late_beginning("# Page\n\n## Use\n\nAs here:\n"))


@pytest.mark.parametrize(
    ("extra", "block"),
    [
        ("sql", '```python\nToolEngineConfig(records="sqlite:///calls.db")\n```'),
        ("sql", "```console\n$ tool-engine history --failed\n```"),
        ("postgres", "```python\nClusterConfig(url=url)\n```"),
        ("server", "```console\n$ tool-engine serve --no-auth\n```"),
        ("otel", "```python\nfrom tool_engine.observability.opentelemetry import x\n```"),
    ],
)
def test_an_extra_that_no_line_names(extra: str, block: str) -> None:
    """A reader who installs what the page says can run all of it; words between blocks run not."""
    assert [line for line, _ in find_unnamed_extras(f"# Page\n{block}\n")] == [3]
    named = f"`pip install '.[mcp,{extra}]'`\n"
    assert not list(find_unnamed_extras(f"{named}{block}\n"))
    assert list(find_unnamed_extras(f"{block}\n{named}"))
    assert not list(find_unnamed_extras(block.replace("```", "~~~")))


def test_a_broken_link(tmp_path: Path) -> None:
    """A file that is not there and a heading that is not there; the internet is not asked."""
    (tmp_path / "other.md").write_text("# What it is, and why\n", encoding="utf-8")
    page = tmp_path / "page.md"
    page.write_text(
        "# Here\n[a](https://example.org/x) [b](other.md#what-it-is-and-why) [c](#here)\n"
        "[d](missing.md)\n![e](other.md#gone)\n",
        encoding="utf-8",
    )
    assert list(find_broken_links(page)) == [
        (3, "there is no missing.md"),
        (4, "other.md has no heading #gone"),
    ]
