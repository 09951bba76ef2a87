"""How does a text or a mapping become tools, or a list of everything that is wrong with it?

`ToolConfigLoader` loads this module when it reads for the first time: whoever calls tools that come
from a cache or are made otherwise needs nothing of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from tool_engine.catalog.definition import (
    build_tool,
    definition_faults,
    definition_warnings,
    plain_data,
)
from tool_engine.catalog.document import Document
from tool_engine.catalog.fault import Fault, locate
from tool_engine.catalog.limits import MAX_PROBLEMS
from tool_engine.catalog.sent_text import sent_text_faults
from tool_engine.errors import DefinitionError, DefinitionProblem
from tool_engine.model.tool import Tool

__all__ = ["tool_of_mapping", "tools_of_text"]


def tool_of_mapping(mapping: Mapping[str, Any], source: str) -> Tool:
    """The tool that a definition in code defines; errors call the definition `source`.

    Raises:
        DefinitionError: The mapping is not a right definition.
    """
    faults: list[Fault] = []
    definition = plain_data(mapping, (), faults)
    if not faults:
        faults = definition_faults(definition)
    if faults:
        raise DefinitionError(*_problems(faults, source, None))
    warnings = definition_warnings(definition)
    return build_tool(definition, None, [str(_problem(fault, source, None)) for fault in warnings])


def tools_of_text(
    text: str | bytes, source: str, *, allow_aliases: bool, may_be_several: bool
) -> list[Tool]:
    """The tools that `text` defines, in its order; errors call the text `source`.

    Args:
        text: One definition, or several with a line `---` between them.
        source: The name of the text, such as its file.
        allow_aliases: Whether `*name` may stand for a copy of what `&name` was put before.
        may_be_several: Whether a second definition is no error.

    Raises:
        DefinitionError: Something is wrong with one of the definitions.
    """
    # PyYAML takes as long to import as the rest of the catalog, and no mapping needs it.
    strict_yaml = import_module("tool_engine.catalog.strict_yaml")
    documents, problems = strict_yaml.parse(text, source, allow_aliases=allow_aliases)
    if not problems and documents and (may_be_several or len(documents) == 1):
        names: dict[str, int] = {}
        found: list[DefinitionProblem] = []
        for document in documents:
            found += _problems(_document_faults(document, names, documents), source, document)
            if len(found) >= MAX_PROBLEMS:
                break
        if found:
            raise DefinitionError(*found[:MAX_PROBLEMS])
        tools = [_built(document, source) for document in documents[:-1]]
        return [*tools, _built(documents[-1], source, _cut_findings(text, source))]
    raise DefinitionError(*_all_problems(documents, problems, source, may_be_several))


def _problem(fault: Fault, source: str, document: Document | None) -> DefinitionProblem:
    return locate([fault], source, document)[0]


def _problems(
    faults: list[Fault], source: str, document: Document | None
) -> list[DefinitionProblem]:
    return locate(faults[:MAX_PROBLEMS], source, document)


def _built(document: Document, source: str, findings: Sequence[str] = ()) -> Tool:
    warnings = definition_warnings(document.value)
    found = [str(_problem(fault, source, document)) for fault in warnings]
    return build_tool(document.value, source, [*found, *findings])


def _cut_findings(text: str | bytes, source: str) -> list[str]:
    """What is told of a file whose last line does not end; text from code may end as it likes."""
    if not isinstance(text, bytes) or text.endswith((b"\n", b"\r")):
        return []
    line, last = text.count(b"\n") + 1, text.rpartition(b"\n")[2]
    message = "the last line does not end, so the file may have been cut short"
    column = len(last.decode("utf-8", "replace")) + 1
    cure = "end it with a line break"
    return [str(DefinitionProblem(f"{message}; {cure}", source, line, column, cure=cure))]


def _document_faults(
    document: Document, names: dict[str, int], documents: list[Document]
) -> list[Fault]:
    """What is wrong with one of several definitions; notes in `names` where each name stands."""
    if document.value is None and len(documents) > 1:
        cure = "remove the line, or write a tool"
        return [Fault((), "there is nothing after this ---", cure=cure)]
    faults = definition_faults(document.value) + sent_text_faults(document)
    name = document.value.get("name") if isinstance(document.value, dict) else None
    if isinstance(name, str) and len(documents) > 1:
        line, _ = document.position(("name",))
        first = names.setdefault(name, line)
        if first != line:
            message = f"the tool {name[:80]!r} is already defined on line {first}"
            faults.append(Fault(("name",), message, cure="rename or remove one"))
    return faults


def _all_problems(
    documents: list[Document],
    problems: list[DefinitionProblem],
    source: str,
    may_be_several: bool,
) -> list[DefinitionProblem]:
    """The problems of the YAML, and of the definitions in it where they could still be read."""
    if not documents:
        cure = "write a definition, which has name and description"
        return problems or [
            DefinitionProblem(f"the file is empty; {cure}", source, 1, 1, cure=cure)
        ]
    if len(documents) > 1 and not may_be_several:
        line, column = documents[1].position(())
        cure = "split the text, or read all of its tools with load_tools or load_file_tools"
        message = f"a second definition starts here, and one tool was asked for; {cure}"
        return [*problems, DefinitionProblem(message, source, line, column, cure=cure)]
    places = {(problem.line, problem.column) for problem in problems}
    names: dict[str, int] = {}
    for document in documents:
        faults = _problems(_document_faults(document, names, documents), source, document)
        # What the YAML reader refused has a stand-in value, about which nothing can be said.
        problems += [found for found in faults if (found.line, found.column) not in places]
        if len(problems) >= MAX_PROBLEMS:
            break
    problems.sort(key=lambda problem: (problem.line or 0, problem.column or 0))
    return problems[:MAX_PROBLEMS]
