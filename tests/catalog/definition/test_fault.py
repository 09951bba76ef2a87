"""Is what is wrong told in parts, in one sentence, and at its place?"""

from __future__ import annotations

import pytest

from tool_engine import DefinitionError, DefinitionProblem, ToolConfigLoader
from tool_engine.catalog.definition.fault import Fault, list_names, locate_faults
from tool_engine.catalog.yaml.strict_yaml import load_documents
from tool_engine.redaction import describe_value

HEAD = "name: t\ndescription: d\n"


def problem_of(text: str | bytes) -> DefinitionProblem:
    with pytest.raises(DefinitionError) as caught:
        ToolConfigLoader().load_tools(text, "t.yaml")
    (problem,) = caught.value.problems
    return problem


@pytest.mark.parametrize(
    ("text", "expected", "got", "near", "cure"),
    [
        ("version: 1.10\n", "text", "the number 1.10", "", "quote it"),
        ("effect: reads\n", "one of read, write, unknown", "the text 'reads'", "read", ""),
        ("category: HTTP\n", "one of http, ", "the text 'HTTP'", "http", ""),
        ("tgs: []\n", "one of name, version, ", "the key 'tgs'", "tags", ""),
        ("qqq: 1\n", "one of name, version, ", "the key 'qqq'", "", "the keys here are name, "),
        ("timeout: -1.50\n", "more than 0", "the number -1.50", "", ""),
        ("tags: ['']\n", "", "nothing in it", "", "give it a value or remove the key"),
        ("entry: {}\n", "the key 'type'", "", "", "add it: "),
        ("parameters: [{name: p, type: boolean, description: d, default: no}]\n",
         "a boolean", "the text 'no'", "", "write false"),
        ("parameters: [{name: p, type: array, description: d, default: a}]\n",
         "an array", "the text 'a'", "", "write it as a list: [a]"),
        ("parameters: [{name: p, type: string, description: d, default: null}]\n",
         "a string", "nothing", "", "remove the key for no default"),
        ("parameters: [{name: p, type: integer, description: d, min: 0x1F, max: 3}]\n",
         "at most 3", "the number 0x1F", "", "change one of the two"),
        ("concurrency: {key: params.x}\n", "", "", "", "the tool has none"),
        ("author: *a\n", "", "", "", "write the value out"),
        ("author: [\n", "", "", "", "check this line and the ones before it"),
        ("rate: 1/0s\n", "", "", "", "write it as 10/s, "),
    ],
)  # fmt: skip
def test_parts(text: str, expected: str, got: str, near: str, cure: str) -> None:
    """K3: expected, got, the nearest word and the cure stand in fields, and in the sentence."""
    problem = problem_of(HEAD + text)
    assert problem.expected.startswith(expected)
    assert bool(expected) == bool(problem.expected)
    assert (problem.got, problem.nearest) == (got, near)
    assert problem.cure.startswith(cure)
    assert bool(cure) == bool(problem.cure)
    assert problem.message.endswith(problem.cure or f"did you mean {near!r}?" * bool(near))
    assert f"t.yaml:3:{problem.column}: " in str(problem) or "t.yaml:4:1: " in str(problem)


def test_the_whole_file() -> None:
    """K3: what is wrong with the file as a whole stands at its beginning, with a cure."""
    for text in (b"", b"#\n", b"#" * (1024 * 1024 + 1), b"\xff\xfe"):
        problem = problem_of(text)
        assert (problem.line, problem.column, problem.path) == (1, 1, "")
        assert problem.cure


def test_sentence() -> None:
    """K3: the sentence has a fixed form, whatever is known."""
    assert Fault(("a",), "is wrong").sentence == "is wrong"
    assert Fault((), expected="x", got="y", cure="z").sentence == "expected x, got y; z"
    assert Fault((), "m", nearest="n").sentence == "m; did you mean 'n'?"


def test_locate_orders_and_places() -> None:
    """K3: problems come in the order of the text; without a text they keep theirs."""
    (document,) = load_documents("a: [1, 2]\nb: 3\n", "x")
    faults = [Fault(("b",), "m", at_key=True), Fault(("a", 1), "n"), Fault(("zz", 1), "o")]
    found = [
        (each.message, each.line, each.column) for each in locate_faults(faults, "x", document)
    ]
    assert found == [("o", 1, 1), ("n", 1, 8), ("m", 2, 1)]
    assert [each.line for each in locate_faults(faults, "x", None)] == [None, None, None]
    assert locate_faults([], "x", document) == []


def test_words() -> None:
    """K3: values and names are shown short."""
    assert describe_value({}) == "a mapping"
    assert len(describe_value("x" * 999)) < 100
    assert list_names(["a", 1]) == "a, 1"
    assert list_names(map(str, range(99))).endswith("19, …")


def test_a_file_that_may_be_cut_is_told() -> None:
    """K3: a file whose last line does not end has a finding; text from code has none."""
    loader = ToolConfigLoader()
    cut = b"name: a\ndescription: d\n---\nname: b\ndescription: \xc3\xa9"
    first, second = loader.load_tools(cut, "t.yaml")
    assert first.findings == []
    assert second.findings == [
        (
            "t.yaml:5:15: the last line does not end, so the file may have been cut short; "
            "end it with a line break"
        )
    ]
    assert [tool.findings for tool in loader.load_tools(cut + b"\r", "t.yaml")] == [[], []]
    assert loader.load_text(cut.decode().partition("---")[0]).findings == []


def test_aliases_are_a_choice_of_the_loader() -> None:
    """K3: a loader reads aliases only when it is asked to."""
    text = f"{HEAD}author: &a me\nicon: *a\n"
    assert ToolConfigLoader(allow_aliases=True).load_text(text).icon == "me"
    with pytest.raises(DefinitionError, match="alias"):
        ToolConfigLoader().load_text(text)


def test_a_closed_output_stays_closed() -> None:
    """K8: an output is open, unless its own schema says that it is not."""
    text = f"{HEAD}output: {{type: object, properties: {{a: any}}"
    loader = ToolConfigLoader()
    assert "additionalProperties" not in (loader.load_text(text + "}").output or {})
    closed = loader.load_text(text + ", schema: {additionalProperties: false}}")
    assert (closed.output or {})["additionalProperties"] is False
    exported = loader.load_text(loader.export_to_yaml(closed))
    assert exported.definition_hash == closed.definition_hash


def test_a_flag_is_no_secret() -> None:
    """`secret: 'true'` is told as it stands there; what may be a secret under that key is not."""
    text = "name: x\ndescription: d\nparameters: [{name: a, type: string, secret: %s}]"
    with pytest.raises(DefinitionError, match="expected true or false, got the text 'true'"):
        ToolConfigLoader().load_text(text % "'true'")
    with pytest.raises(DefinitionError) as caught:
        ToolConfigLoader().load_text(text % "hunter2x")
    assert "hunter2x" not in str(caught.value)
