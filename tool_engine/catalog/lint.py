"""Which definitions load but are bad, and what is the cure?

The rules are values in `LINT_RULES`. A comment in the file switches one off, because it is no part
of what the tool is: behind a line for that line, on a line of its own for the whole file::

    # lint: ignore L103
    effect: read  # lint: ignore L302
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple

import msgspec

from tool_engine.catalog.limits import MAX_PROBLEMS
from tool_engine.catalog.lint_rules.descriptions import DESCRIPTION_RULES
from tool_engine.catalog.lint_rules.effects import EFFECT_RULES
from tool_engine.catalog.lint_rules.parameters import EXAMPLE_RULES, PARAMETER_RULES
from tool_engine.catalog.lint_rules.rule import WARNING, Flaw, LintRule
from tool_engine.catalog.loader import load_checked
from tool_engine.catalog.yaml.document import Document, Path, format_path
from tool_engine.catalog.yaml.strict_yaml import parse_yaml
from tool_engine.errors import ConfigurationError, DefinitionProblem
from tool_engine.model.checks.nearness import suggest_near
from tool_engine.model.tool import Tool
from tool_engine.visible import escape_hidden


def _find_nothing(_: Tool) -> Iterable[Flaw]:
    return ()


_WRONG_COMMENT: Final = LintRule(
    "L001",
    WARNING,
    "A `lint: ignore` comment names no rule that there is",
    "It was meant to switch something off, and does not.",
    # No check of a tool: `lint_text` finds the comment in the text.
    _find_nothing,
)

LINT_RULES: Final[tuple[LintRule, ...]] = (
    _WRONG_COMMENT,
    *DESCRIPTION_RULES,
    *PARAMETER_RULES,
    *EFFECT_RULES,
    *EXAMPLE_RULES,
)

_CODES: Final = tuple(rule.code for rule in LINT_RULES)
_COMMENT: Final = re.compile(r"(?P<before>^[ \t]*|.*?[ \t])#[ \t]*lint:[ \t]*ignore\b(?P<codes>.*)")
_SEPARATOR: Final = re.compile(r"[\s,]+")
_BOM: Final = "\ufeff"


class LintFinding(msgspec.Struct, frozen=True):
    code: str
    severity: str
    """`error` or `warning`."""
    message: str
    """What is wrong, and the cure."""
    tool: str
    path: str = ""
    """Where in the definition, such as `parameters[0].description`."""
    file: str | None = None
    line: int | None = None
    column: int | None = None

    def __str__(self) -> str:
        place = [self.file or self.tool, self.line, self.column]
        where = ":".join(str(part) for part in place if part is not None)
        about = f"{self.path}: " if self.path else ""
        return escape_hidden(f"{where}: {self.code} {about}{self.message}")


class _Ignored(NamedTuple):
    everywhere: frozenset[str]
    at_line: frozenset[tuple[int, str]]

    def covers(self, finding: LintFinding) -> bool:
        return finding.code in self.everywhere or (finding.line, finding.code) in self.at_line


def choose_rules(select: Sequence[str] = (), ignore: Sequence[str] = ()) -> list[LintRule]:
    """Return the rules that `select` includes and `ignore` does not.

    Both hold codes such as `L101`, or beginnings of codes such as `L1`; an empty `select` includes
    all.

    Raises:
        ConfigurationError: No code begins so.
    """
    for word in (*select, *ignore):
        if not word or not any(code.startswith(word) for code in _CODES):
            hint = suggest_near(word, _CODES) or f"; the codes are {', '.join(_CODES)}"
            raise ConfigurationError(f"there is no lint rule {word!r}{hint}")
    return [
        rule
        for rule in LINT_RULES
        if rule.code.startswith(tuple(select) or "L") and not rule.code.startswith(tuple(ignore))
    ]


def lint_tool(tool: Tool, rules: Iterable[LintRule] = LINT_RULES) -> list[LintFinding]:
    """Return the flaws of a tool, with paths but no lines.

    Example:
        >>> tool = ToolConfigLoader().from_mapping({"name": "ping", "description": "Pings."})
        >>> [finding.code for finding in lint_tool(tool)]
        ['L101', 'L102', 'L103', 'L401', 'L402']
    """
    return list(_find_flaws(tool, rules, None))


def lint_text(
    text: str | bytes,
    source: str,
    rules: Iterable[LintRule] = LINT_RULES,
    check: Callable[[Tool], list[DefinitionProblem]] | None = None,
) -> list[LintFinding]:
    """Return the flaws of every tool in a text, by line.

    Args:
        text: One definition, or several.
        source: What the findings call it.
        rules: What is looked for.
        check: Says what an engine would refuse of a tool.

    Raises:
        DefinitionError: The text is not a right definition.
    """
    chosen = list(rules)
    definitions = load_checked(text, source, check)
    documents, _ = parse_yaml(text, source)
    ignored, wrong = _read_comments(text, source)
    findings = wrong if _WRONG_COMMENT in chosen else []
    for definition, document in zip(definitions, documents, strict=True):
        # The rules are about tools; what is wrong with a group is an error or a warning already.
        found = _find_flaws(definition, chosen, document) if isinstance(definition, Tool) else ()
        findings += [finding for finding in found if not ignored.covers(finding)]
    return sorted(findings, key=lambda each: (each.line or 0, each.column or 0, each.code))


def _find_flaws(
    tool: Tool, rules: Iterable[LintRule], document: Document | None
) -> Iterator[LintFinding]:
    for rule in rules:
        # Each place costs a look through the text, and no author reads the thousandth finding.
        for found, message in islice(rule.check(tool), MAX_PROBLEMS):
            path = _place_in_schema(tool, found)
            line, column = (None, None) if document is None else document.position(path)
            yield LintFinding(
                code=rule.code,
                severity=rule.severity,
                message=message,
                tool=tool.name,
                path=format_path(path),
                file=tool.source,
                line=line,
                column=column,
            )


def _place_in_schema(tool: Tool, path: Path) -> Path:
    """Return the place of a parameter where the parameters are written as JSON Schema."""
    if tool.input_schema is None or path[:1] != ("parameters",) or len(path) == 1:
        return path
    _, number, *rest = path
    return ("parameters", "properties", tool.parameters[int(number)].name, *rest)


def _read_comments(text: str | bytes, source: str) -> tuple[_Ignored, list[LintFinding]]:
    if isinstance(text, bytes):
        text = text.decode()
    everywhere: set[str] = set()
    at_line: set[tuple[int, str]] = set()
    wrong: list[LintFinding] = []
    for number, line in enumerate(text.removeprefix(_BOM).splitlines(), 1):
        comment = _COMMENT.match(line)
        if comment is None:
            continue
        codes = {code for code in _SEPARATOR.split(comment["codes"]) if code}
        if not codes or codes - set(_CODES):
            wrong.append(_wrong_comment(codes, source, number, comment.end("before") + 1))
        if comment["before"].strip():
            at_line |= {(number, code) for code in codes}
        else:
            everywhere |= codes
    return _Ignored(frozenset(everywhere), frozenset(at_line)), wrong


def _wrong_comment(codes: set[str], source: str, line: int, column: int) -> LintFinding:
    unknown = ", ".join(sorted(codes - set(_CODES)))
    what = f"names {unknown}, which is no rule" if unknown else "names no rule"
    message = f"the comment {what}; write `# lint: ignore L103` with the code of a finding"
    rule = _WRONG_COMMENT
    return LintFinding(rule.code, rule.severity, message, "", "", source, line, column)
