"""Are findings told at their lines, and switched off where the file says so?"""

from __future__ import annotations

from pathlib import Path

import pytest

from tool_engine.catalog.limits import MAX_PROBLEMS
from tool_engine.catalog.lint import choose_rules, lint_text, lint_tool
from tool_engine.catalog.loader import ToolConfigLoader
from tool_engine.errors import ConfigurationError, DefinitionError
from tool_engine.protocols.anthropic import AnthropicProtocol
from tool_engine.protocols.gemini import GeminiProtocol
from tool_engine.protocols.openai import OpenAIProtocol

ROOT = Path(__file__).parents[2]
TEXT = """\
# A file with two flaws and no examples.
name: notes
description: Finds the notes of a user. Use it when asked for one.
effect: read
parameters:
  - name: query
    type: string
    description: Query
"""


def codes(text: str, *select: str) -> list[tuple[str, int | None]]:
    found = lint_text(text, "notes.yaml", choose_rules(select))
    return [(finding.code, finding.line) for finding in found]


def test_each_finding_has_its_place() -> None:
    """R5: file, line, column, code, path and cure, in the order of the file."""
    found = lint_text(TEXT, "notes.yaml")
    assert [(finding.code, finding.line) for finding in found] == [
        ("L401", 2),
        ("L402", 2),
        ("L103", 3),
        ("L201", 8),
    ]
    assert str(found[-1]) == (
        "notes.yaml:8:18: L201 parameters[0].description: only repeats the name 'query'; say what "
        "it is, with an example"
    )
    assert (found[-1].file, found[-1].tool, found[-1].severity) == (
        "notes.yaml",
        "notes",
        "warning",
    )


def test_a_tool_from_code_has_paths_and_no_lines() -> None:
    """R5: what is registered in code can be linted too."""
    tool = ToolConfigLoader().from_mapping({"name": "ping", "description": "Pings it."})
    found = lint_tool(tool)
    assert str(found[0]).startswith("ping: L101 description: has fewer")
    assert found[0].line is None


@pytest.mark.parametrize("data", [TEXT, TEXT.encode(), "\ufeff" + TEXT, TEXT.replace("\n", "\r\n")])
def test_text_bytes_bom_and_crlf_are_the_same(data: str | bytes) -> None:
    """K3: how a file is stored changes no line."""
    assert [finding.line for finding in lint_text(data, "x")] == [2, 2, 3, 8]


def test_a_comment_switches_a_rule_off_for_its_line_or_the_file() -> None:
    """R5: behind a line for that line, on its own line for the file; several codes at once."""
    at_line = TEXT.replace("Query\n", "Query  # lint: ignore L201\n")
    assert ("L201", 8) not in codes(at_line)
    elsewhere = TEXT.replace("effect: read", "effect: read  # lint: ignore L201")
    assert ("L201", 8) in codes(elsewhere)
    assert codes("# lint: ignore L103, L201 L401\n" + TEXT) == [("L402", 3)]
    assert codes("\ufeff# lint: ignore L103,L201,L401,L402\n" + TEXT) == []
    assert codes("   #lint:ignore L103 L201,L401,L402\n" + TEXT) == []


@pytest.mark.parametrize(
    ("comment", "words"),
    [
        ("# lint: ignore", "names no rule"),
        ("# lint: ignore L999", "names L999, which is no rule"),
        ("# lint: ignore all of it", "names all, it, of, which is no rule"),
    ],
)
def test_a_comment_that_switches_nothing_off_is_told(comment: str, words: str) -> None:
    """Nothing is guessed: a comment that was meant to do something and does not is a finding."""
    found = lint_text(f"{comment}\n{TEXT}", "x.yaml")
    assert (found[0].code, found[0].line) == ("L001", 1)
    assert words in found[0].message
    assert "L001" not in {
        each.code for each in lint_text(f"{comment}\n{TEXT}", "x", choose_rules(["L1"]))
    }


def test_every_tool_of_a_list_is_linted() -> None:
    """K3: several tools in one file have their own findings, with the lines of the file."""
    text = f"{TEXT}---\n{TEXT.replace('notes', 'pages')}"
    found = lint_text(text, "x", choose_rules(["L201"]))
    assert [(each.tool, each.line) for each in found] == [("notes", 8), ("pages", 17)]


def test_a_definition_that_is_wrong_is_no_matter_of_lint() -> None:
    """K3: what does not load raises, with all that is wrong with it."""
    with pytest.raises(DefinitionError, match="unknown key 'nme'"):
        lint_text("nme: x\ndescription: x", "x")


def test_rules_are_chosen_by_code_or_its_beginning() -> None:
    """`--select L1 --ignore L103`: beginnings stand for groups, and the ignored ones win."""
    chosen = [rule.code for rule in choose_rules(["L1", "L301"], ["L103", "L104"])]
    assert chosen == ["L101", "L102", "L105", "L106", "L107", "L301"]
    assert len(choose_rules()) > len(chosen)
    for word, cure in (("L109", "did you mean 'L10"), ("what", "the codes are L001"), ("", "''")):
        with pytest.raises(ConfigurationError, match=cure):
            choose_rules([word])
        with pytest.raises(ConfigurationError, match=cure):
            choose_rules([], [word])


@pytest.mark.parametrize("name", ["a", "a" * 64, "a" * 65, "a.b", "a-b", "_a", "A1"])
def test_names_are_refused_as_the_providers_refuse_them(name: str) -> None:
    """R4: the rule names the tools of which a provider is told under another name."""
    tool = ToolConfigLoader().from_mapping({"name": name, "description": "x"})
    rules = [protocol.name_rule for protocol in (OpenAIProtocol, AnthropicProtocol, GeminiProtocol)]
    is_refused = any(not rule.accepts(name) for rule in rules)
    found = [each for each in lint_tool(tool) if each.code == "L105"]
    assert bool(found) is is_refused
    for each in found:
        assert any(rule.words in each.message for rule in rules)


SHIPPED = [*sorted(ROOT.glob("tools/*.yaml"))]


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_what_is_shipped_is_clean(path: Path) -> None:
    """R5: each tool of the project keeps to the rules that it preaches."""
    assert [str(finding) for finding in lint_text(path.read_bytes(), str(path))] == []


SEED = """\
name: http_request
version: "1.0.0"
description: 发送 HTTP 请求并返回响应
category: http
tags: [network, api, request]
parameters:
  - {name: url, type: string, required: true, description: 请求 URL, validation: {pattern: "^https?://"}}
  - {name: method, type: string, default: POST, description: HTTP 方法, validation: {enum: [POST]}}
  - {name: headers, type: object, description: 请求头}
  - {name: body, type: object, description: 请求体（POST/PUT/PATCH）}
  - {name: timeout, type: number, default: 30, description: 超时时间（秒）, validation: {min: 1}}
entry: {type: builtin, handler: http_request}
"""


def test_the_founding_example_has_only_what_is_true_of_it() -> None:
    """R5: a Chinese file is judged by its words: it says what, not when; no parameter is blamed."""
    found = {finding.code for finding in lint_text(SEED, "http_request.yaml")}
    assert found == {"L102", "L103", "L301", "L401", "L402"}


@pytest.mark.timeout(30)
def test_a_file_of_nothing_but_flaws_is_told_in_part() -> None:
    """Nothing that a file contains hangs the linter, or buries a person in findings."""
    parameter = "  - {name: p%d, type: string, description: x}\n"
    many = "".join(parameter % number for number in range(2_000))
    items = ", ".join(["1"] * 4_000)
    text = (
        f"name: a\ndescription: b\nparameters:\n{many}examples: [{{params: {{p0: [{items}]}}}}]\n"
    )
    found = lint_text(text, "x.yaml")
    for code in ("L201", "L202"):
        assert sum(each.code == code for each in found) == MAX_PROBLEMS
    assert len(found) < 5 * MAX_PROBLEMS


def test_groups_are_passed_over() -> None:
    """The rules are about tools; a comment for one of them holds beside a group, too."""
    group = "kind: group\nname: g\ntags: [a]\n"
    tool = "name: ping\ndescription: Pings.\n"
    alone = {finding.code for finding in lint_text(tool, "x.yaml")}
    both = lint_text(f"{group}---\n{tool}", "x.yaml")
    assert {finding.code for finding in both} == alone
    assert {finding.tool for finding in both} == {"ping"}
    assert lint_text(group, "x.yaml") == []
