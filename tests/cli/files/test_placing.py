"""Do problems that only a loaded tool shows name the line of its file?"""

from __future__ import annotations

from pathlib import Path

import pytest

from tool_engine import DefinitionError, ToolEngine, ToolEngineConfig
from tool_engine.cli.files.checking import place_problem
from tool_engine.errors import DefinitionProblem

SHELL = """name: sh
description: d
parameters:
  - {name: x, type: string, required: true, description: x}
entry: {type: builtin, argv: ["sh", "-c", "echo {x}"]}
"""
SQL = """name: fine
description: d
---
name: q
description: d
entry:
  type: builtin
  source: db
  sql: "SELECT 1; SELECT 2"
"""


async def test_load_errors_of_entries_have_line_and_column(tmp_path: Path) -> None:
    """K5: what an executor finds wrong is told with its place in the file, cached or not."""
    (tmp_path / "sh.yaml").write_text(SHELL)
    (tmp_path / "sql.yaml").write_text(SQL)
    for _ in range(2):
        engine = ToolEngine(ToolEngineConfig(str(tmp_path), auto_reload=False))
        await engine.load()
        sh, sql = sorted(message for _, message in engine.load_errors)
        await engine.close()
        assert "sh.yaml:5:43: entry.argv[2]: a parameter in a script for sh" in sh
        assert "sql.yaml:9:8: entry.sql: holds more than one statement" in sql


def test_a_text_that_is_another_one() -> None:
    """A problem keeps what it says where the text has no such place any more."""
    problem = DefinitionProblem("wrong", "a.yaml", path="entry.sql")
    assert place_problem(problem, b"{", 0) == problem
    assert place_problem(problem, SQL.encode(), 7) == problem
    assert place_problem(problem, SQL.encode(), 1)[2:4] == (9, 8)
    told = problem._replace(line=1, column=2)
    assert place_problem(told, SQL.encode(), 1) == told


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"type": "builtin", "argv": ["sh", "-c", "echo {x}"]}, r"entry\.argv\[2\]: a parameter"),
        (
            {"type": "builtin", "source": "d", "sql": "SELECT 1; SELECT 2"},
            r"entry\.sql: holds more",
        ),
        ({"type": "http", "request": {"url": "https://{x}"}}, r"entry\.request\.url: must begin"),
        ({"type": "builtin", "handler": "read_file"}, r"entry\.root: is missing"),
        ({"type": "workflow", "steps": []}, r"entry\.steps"),
    ],
)
async def test_registering_refuses_what_a_file_may_not_say(entry: object, words: str) -> None:
    """R1: a definition in code is judged like one in a file, before its first call."""
    parameter = {"name": "x", "type": "string", "required": True, "description": "x"}
    definition = {"name": "t", "description": "d", "parameters": [parameter], "entry": entry}
    async with ToolEngine(ToolEngineConfig("none", auto_reload=False)) as engine:
        with pytest.raises(DefinitionError, match=words):
            engine.register_tool(definition)
        assert engine.get("t") is None
        # A handler of one's own runs instead of what the entry says.
        engine.register_tool({**definition, "name": "u"} | {"entry": {"type": "custom"}}, len_of)


def len_of(x: str) -> int:
    return len(x)
