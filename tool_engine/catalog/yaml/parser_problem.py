"""How does an author mend a text that is not YAML?"""

from __future__ import annotations

from typing import Final

import yaml

from tool_engine.errors import DefinitionProblem

_CURES: Final = (
    ("token", "indent with spaces, and quote text that holds special characters"),
    ("expected ':'", "write key: value"),
    ("mapping values", "quote text that holds a colon, and check the indentation"),
    ("expected ','", "close the bracket, or put a comma between"),
    ("end of stream", "close the quotation marks"),
    ("escape character", "write \\\\ for a backslash, or use 'single quotes'"),
    ("<document start>", "write a line --- before it"),
    ("directive", "remove the line"),
    ("PyYAML was", "import it once"),
    ("", "check this line and the ones before it"),
)
"""A part of the parser's message -> the cure; the first match counts."""


def parser_problem(error: yaml.YAMLError, source: str) -> DefinitionProblem:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    context = getattr(error, "context", None)
    problem = getattr(error, "problem", None) or str(error)
    message = f"not valid YAML: {context + ', ' if context else ''}{problem}"
    cure = next(cure for part, cure in _CURES if part in problem)
    message += f"; {cure}"
    if mark is None:
        return DefinitionProblem(message, source, cure=cure)
    return DefinitionProblem(message, source, mark.line + 1, mark.column + 1, cure=cure)
