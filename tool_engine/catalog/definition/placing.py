"""On which line is a problem of a loaded tool?

An executor reads the entry of the loaded tool, which no longer knows the lines of its text.
"""

from __future__ import annotations

from tool_engine.catalog.yaml.document import parse_path
from tool_engine.catalog.yaml.strict_yaml import parse_yaml
from tool_engine.errors import DefinitionError, DefinitionProblem


def place_problem(problem: DefinitionProblem, text: bytes, number: int) -> DefinitionProblem:
    """Return the problem with the line and column of definition `number`."""
    if problem.line is not None:
        return problem
    try:
        documents, _ = parse_yaml(text, problem.file)
    except DefinitionError:
        documents = []
    if number >= len(documents):
        # The file has changed meanwhile; its next check finds the problem anew.
        return problem
    line, column = documents[number].position(parse_path(problem.path))
    return problem._replace(line=line, column=column)
