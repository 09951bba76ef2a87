"""How do texts and mappings become tools, groups and servers, or faults?

`ToolConfigLoader` loads this module at its first read: tools from a cache do without it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from itertools import islice
from typing import Any, Final

from tool_engine.catalog.definition.fault import (
    Fault,
    is_secret_place,
    locate_faults,
)
from tool_engine.catalog.definition.group_definition import (
    GROUP,
    build_group,
    group_faults,
    group_findings,
    is_group,
)
from tool_engine.catalog.definition.known_parts import (
    is_alike_right,
    is_known_right,
    note_right,
    write_alike,
)
from tool_engine.catalog.definition.mending import Found, is_of_key, list_mistakes
from tool_engine.catalog.definition.plain_data import plain_definition
from tool_engine.catalog.definition.server_definition import (
    SERVER,
    build_server,
    is_server,
    mark_parts,
    server_faults,
    server_warnings,
)
from tool_engine.catalog.definition.tool_definition import (
    build_tool,
    definition_faults,
    definition_warnings,
)
from tool_engine.catalog.kinds import Definition, ServerDefinition
from tool_engine.catalog.limits import MAX_PROBLEMS
from tool_engine.catalog.yaml.document import (
    Document,
    Path,
    format_path,
    list_leaves,
    parse_path,
)
from tool_engine.catalog.yaml.lost_text import find_lost_texts
from tool_engine.errors import DefinitionError, DefinitionProblem
from tool_engine.model.group import ToolGroup
from tool_engine.model.tool import Tool
from tool_engine.redaction import describe_value

_TOOL: Final = "tool"
_KINDS: Final[Mapping[str, tuple[Callable[..., Any], ...]]] = {
    _TOOL: (definition_faults, definition_warnings, build_tool),
    GROUP: (group_faults, group_findings, build_group),
    SERVER: (server_faults, server_warnings, build_server),
}
"""What finds the faults of each kind and its warnings, and what builds it."""
Check = Callable[[Tool], list[DefinitionProblem]]
"""What an engine would refuse of a tool."""


def tool_of_mapping(mapping: Mapping[str, Any], source: str, check: Check | None = None) -> Tool:
    """Build the tool of a mapping that was written in code."""
    faults: list[Fault] = []
    return tool_of_plain(plain_definition(mapping, faults), source, faults, check=check)


def tool_of_plain(
    definition: Any,
    source: str,
    faults: list[Fault] | None = None,
    check: Check | None = None,
) -> Tool:
    """Build the tool of plain data, which it takes over.

    Args:
        definition: As `plain_definition` or `write_plain` returns it.
        source: What errors call it.
        faults: What was found already.
        check: Says what else is wrong with the tool.

    Raises:
        DefinitionError: It is not a right definition.
    """
    if not faults and is_group(definition):
        cure = "register it as a group, or remove kind"
        faults = [Fault(("kind",), "this is a group, and a tool was asked for", cure=cure)]
    if not faults and is_server(definition):
        cure = "put it into mcp_servers of the configuration, or remove kind"
        faults = [Fault(("kind",), "this is a server, and a tool was asked for", cure=cure)]
    if faults:
        raise DefinitionError(*_locate_problems(faults, source, None))
    tool, problems, alike = None, [], write_alike(definition)
    faults, warnings = ([], []) if is_alike_right(alike) else _judge_tool(definition, alike)
    if not faults:
        found = [str(_locate_problem(fault, source, None)) for fault in warnings]
        tool = build_tool(definition, None, found)
        problems = check(tool) if check is not None else []
    if tool is None or problems:
        check_built = _check_as_built(check, None, (definition, problems))
        mistakes = list_mistakes(definition, faults, _find_faults, check_built)
        raise DefinitionError(*_locate_found(mistakes, source, None))
    return tool


def _judge_tool(definition: Any, alike: bytes | None) -> tuple[list[Fault], list[Fault]]:
    """Return the faults and the warnings of a tool; where there are none, note those like it."""
    is_right = isinstance(definition, dict) and is_known_right(definition.get("parameters"))
    faults = definition_faults(definition, is_schema_right=is_right)
    warnings = [] if faults else definition_warnings(definition, is_schema_right=is_right)
    if not faults and not warnings:
        note_right(alike)
    return faults, warnings


def _find_faults(
    definition: Any, document: Document | None = None, *, is_right: bool = False
) -> list[Fault]:
    kind = _kind_of(definition)
    faults: list[Fault] = [] if is_right else _KINDS[kind][0](definition)
    if kind != _TOOL or document is None:
        return faults
    return [*faults, *sent_text_faults(definition, document)]


def _check_as_built(
    check: Check | None, source: str | None, known: tuple[Any, list[DefinitionProblem]]
) -> Callable[[Any], list[DefinitionProblem]] | None:
    """Return what checks a definition's tool.

    Args:
        check: Checks a tool.
        source: Its file.
        known: A definition that was checked, and what was found.
    """
    if check is None:
        return None

    def check_built(definition: Any) -> list[DefinitionProblem]:
        if known[1] and definition == known[0]:
            return known[1]
        is_tool = _kind_of(definition) == _TOOL
        return check(build_tool(definition, source, [])) if is_tool else []

    return check_built


def group_of_mapping(mapping: Mapping[str, Any], source: str) -> ToolGroup:
    """Build the group of a mapping, which needs no `kind`."""
    faults: list[Fault] = []
    if not isinstance(mapping, Mapping):
        fault = Fault((), expected="a mapping", got=describe_value(mapping))
        raise DefinitionError(*_locate_problems([fault], source, None))
    definition = plain_definition({"kind": GROUP, **mapping}, faults)
    if not faults and not is_group(definition):
        expected, got = GROUP, describe_value(definition["kind"])
        faults = [Fault(("kind",), expected=expected, got=got, cure="or remove the key")]
    if faults or (wrong := group_faults(definition)):
        mistakes = faults or list_mistakes(definition, wrong, _find_faults)
        raise DefinitionError(*_locate_found([*mistakes], source, None))
    found = [str(_locate_problem(fault, source, None)) for fault in group_findings(definition)]
    return build_group(definition, None, found)


def definitions_of_text(
    text: str | bytes,
    source: str,
    *,
    allow_aliases: bool,
    only_one_tool: bool,
    check: Check | None = None,
) -> list[Definition]:
    """Return the definitions in `text`, as `ToolConfigLoader.load_definitions` promises.

    With `only_one_tool`, a second definition is an error, and so is a group or a server. `check`
    says what else is wrong with a tool.
    """
    # PyYAML takes as long to import as the rest of the catalog, and no mapping needs it.
    strict_yaml = import_module("tool_engine.catalog.yaml.strict_yaml")
    documents, problems = strict_yaml.parse_yaml(text, source, allow_aliases=allow_aliases)
    may_be_several = not only_one_tool
    if only_one_tool and len(documents) == 1 and _kind_of(documents[0].value) != _TOOL:
        problems = [*problems, _no_tool(documents[0], source)]
    if problems or not documents or not (may_be_several or len(documents) == 1):
        found = _all_problems(documents, problems, source, may_be_several, check)
        raise DefinitionError(*found)
    names: dict[tuple[str, str], int] = {}
    built: list[Definition] = []
    found = []
    for document in documents:
        alike = write_alike(document.value)
        faults = _document_faults(document, documents, is_right=is_alike_right(alike))
        of_name = _name_faults(document, names, documents)
        lost = _find_lost(document, source)
        lost += _cut_findings(text, source) if document is documents[-1] else []
        made = None if faults else _build_definition(document, source, lost, alike)
        refused = check(made) if check is not None and isinstance(made, Tool) else []
        mistakes: list[Found] = [*of_name]
        if made is None or refused:
            check_built = _check_as_built(check, source, (document.value, refused))
            mistakes += _list_mistakes(document, faults, check_built)
        else:
            built.append(made)
        found += _locate_found(mistakes, source, document)
        if len(found) >= MAX_PROBLEMS:
            break
    if found:
        raise DefinitionError(*found[:MAX_PROBLEMS])
    return built


def _kind_of(definition: Any) -> str:
    if is_group(definition):
        return GROUP
    return SERVER if is_server(definition) else _TOOL


def _locate_problem(fault: Fault, source: str, document: Document | None) -> DefinitionProblem:
    return locate_faults([fault], source, document)[0]


def _locate_problems(
    faults: list[Fault], source: str, document: Document | None
) -> list[DefinitionProblem]:
    return locate_faults(faults[:MAX_PROBLEMS], source, document)


def _locate_found(
    found: list[Found], source: str, document: Document | None
) -> list[DefinitionProblem]:
    """Return what was found as problems, by line."""
    faults = [each for each in found if isinstance(each, Fault)]
    problems = _locate_problems(faults, source, document)
    for each in found[:MAX_PROBLEMS]:
        if isinstance(each, DefinitionProblem):
            line, column = each.line, each.column
            if line is None and document is not None:
                path = parse_path(each.path)
                line, column = document.position(path, of_key=is_of_key(each))
            problems.append(each._replace(line=line, column=column))
    problems.sort(key=lambda problem: (problem.line or 0, problem.column or 0))
    return problems[:MAX_PROBLEMS]


def _build_definition(
    document: Document, source: str, findings: Sequence[str], alike: bytes | None
) -> Definition:
    definition = document.value
    kind = _kind_of(definition)
    _, find_warnings, build = _KINDS[kind]
    warnings = [] if is_alike_right(alike) else find_warnings(definition)
    if kind == _TOOL and not warnings:
        note_right(alike)
    found = [str(_locate_problem(fault, source, document)) for fault in warnings]
    found += findings
    built: Definition = build(definition, source, found)
    return mark_parts(built, document) if isinstance(built, ServerDefinition) else built


def _no_tool(document: Document, source: str) -> DefinitionProblem:
    cure = "read it with load_definitions or load_file_definitions"
    what = "group" if is_group(document.value) else "server"
    fault = Fault(("kind",), f"this is a {what}, and a tool was asked for", cure=cure)
    return _locate_problem(fault, source, document)


def _cut_findings(text: str | bytes, source: str) -> list[str]:
    """Return a finding for a file without a final line end."""
    if not isinstance(text, bytes) or text.endswith((b"\n", b"\r")):
        return []
    line, last = text.count(b"\n") + 1, text.rpartition(b"\n")[2]
    message = "the last line does not end, so the file may have been cut short"
    column = len(last.decode("utf-8", "replace")) + 1
    cure = "end it with a line break"
    return [str(DefinitionProblem(f"{message}; {cure}", source, line, column, cure=cure))]


def _find_lost(document: Document, source: str) -> list[str]:
    """Return the findings for texts that YAML cuts or joins."""
    lost = find_lost_texts(document, is_secret_place)
    return [
        str(
            DefinitionProblem(
                message,
                source,
                line,
                column,
                path=format_path(path),
                cure=message.partition("; ")[2],
            )
        )
        for path, message, line, column in islice(lost, MAX_PROBLEMS)
    ]


def _document_faults(
    document: Document, documents: list[Document], *, is_right: bool = False
) -> list[Fault]:
    """Return the faults of one definition as it stands."""
    if document.value is None and len(documents) > 1:
        cure = "remove the line, or write a tool"
        return [Fault((), "there is nothing after this ---", cure=cure)]
    return _find_faults(document.value, document, is_right=is_right)


def _name_faults(
    document: Document, names: dict[tuple[str, str], int], documents: list[Document]
) -> list[Fault]:
    """Return the fault of a name that stands twice in a text; note it in `names`."""
    kind = _kind_of(document.value)
    name = document.value.get("name") if isinstance(document.value, dict) else None
    if not isinstance(name, str) or len(documents) == 1:
        return []
    line, _ = document.position(("name",))
    first = names.setdefault((kind, name), line)
    message = f"the {kind.removeprefix('mcp_')} {name[:80]!r} is already defined on line {first}"
    return [Fault(("name",), message, cure="rename or remove one")] if first != line else []


def _list_mistakes(
    document: Document,
    faults: list[Fault],
    check: Callable[[Any], list[DefinitionProblem]] | None,
) -> list[Found]:
    """Return all that is wrong with a definition of which `faults` are known."""
    if not isinstance(document.value, dict):
        return [*faults]
    find = partial(_find_faults, document=document)
    return list_mistakes(document.value, faults, find, check)


def _all_problems(
    documents: list[Document],
    problems: list[DefinitionProblem],
    source: str,
    may_be_several: bool,
    check: Check | None,
) -> list[DefinitionProblem]:
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
    names: dict[tuple[str, str], int] = {}
    for document in documents:
        check_built = _check_as_built(check, source, (None, []))
        mistakes: list[Found] = [*_name_faults(document, names, documents)]
        mistakes += _list_mistakes(document, _document_faults(document, documents), check_built)
        found = _locate_found(mistakes, source, document)
        # A value that the YAML reader refused is a stand-in, so nothing can be said about it.
        problems += [each for each in found if (each.line, each.column) not in places]
        if len(problems) >= MAX_PROBLEMS:
            break
    problems.sort(key=lambda problem: (problem.line or 0, problem.column or 0))
    return problems[:MAX_PROBLEMS]


# `version: 1.10` in a query is the number 1.1, and the server would get `1.1`.
def sent_text_faults(definition: Any, document: Document) -> list[Fault]:
    value = definition
    for part in ("entry", "request"):
        value = value.get(part) if isinstance(value, dict) else None
    if not isinstance(value, dict):
        return []
    return [
        Fault(
            path,
            f"this number is sent as the text {str(number)!r}",
            expected="text",
            got=describe_value(number),
            cure="quote it to send what is written",
        )
        for place in ("query", "headers")
        for path, number in list_leaves(value.get(place), ("entry", "request", place))
        if isinstance(number, int | float) and not isinstance(number, bool)
        if _is_changed(document, path, number)
    ]


def _is_changed(document: Document, path: Path, number: float) -> bool:
    (mark,) = document.marks([(path, False)])
    return document.number_as_written(path, mark) != str(number)
