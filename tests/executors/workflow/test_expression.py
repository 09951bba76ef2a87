"""What references and conditions may be written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tool_engine.executors.workflow.expression import (
    MAX_LENGTH,
    All,
    AnyOf,
    Comparison,
    ExpressionError,
    FirstOf,
    Literal,
    Node,
    Not,
    Path,
    parse_condition,
    paths_of,
    read_reference,
)

A, B, C = (Path("params", (name,)) for name in "abc")


@pytest.mark.parametrize(
    ("text", "node"),
    [
        ("params.a", A),
        ("steps.list.output.items[0].id", Path("steps", ("list", "output", "items", 0, "id"))),
        ("steps.fetch-it.output['a b'][-1]", Path("steps", ("fetch-it", "output", "a b", -1))),
        ('params["a}"]', Path("params", ("a}",))),
        ("params.天气", Path("params", ("天气",))),
        ("item", Path("item", ())),
        (" index ", Path("index", ())),
        ("params.a ?? params.b ?? 0", FirstOf((A, B, Literal(0)))),
        ("params.a ?? '}'", FirstOf((A, Literal("}")))),
        ('params.a ?? {"x": ["}"]}', FirstOf((A, Literal({"x": ["}"]})))),
    ],
)
def test_references(text: str, node: Node) -> None:
    """D21: a path of keys and positions, and what stands for a value that is missing."""
    assert read_reference(f"${{{text}}} and more", 2) == (node, len(text) + 3)


@pytest.mark.parametrize(
    ("text", "node"),
    [
        ("params.a == 'x'", Comparison("==", A, Literal("x"))),
        ('params.a!="x"', Comparison("!=", A, Literal("x"))),
        ("${params.a} > -1.5e1", Comparison(">", A, Literal(-15.0))),
        ("params.a<=0", Comparison("<=", A, Literal(0))),
        ("params.a in ['x', 1]", None),
        ('params.a in ["x", 1]', Comparison("in", A, Literal(["x", 1]))),
        ("params.a not in params.b", Comparison("not in", A, B)),
        ("not params.a", Not(A)),
        ("not not params.a", A),
        ("true", Literal(value=True)),
        ("params.a ?? false", FirstOf((A, Literal(value=False)))),
        ("params.a and params.b or params.c", AnyOf((All((A, B)), C))),
        ("params.a and (params.b or not params.c)", All((A, AnyOf((B, Not(C)))))),
        ("null == params.a", Comparison("==", Literal(None), A)),
    ],
)
def test_conditions(text: str, node: Node | None) -> None:
    """D21: comparisons, `and`, `or`, `not`, in the order in which everybody reads them."""
    if node is None:
        with pytest.raises(ExpressionError):
            parse_condition(text)
    else:
        assert parse_condition(text) == node


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "expected a reference or a value, got nothing more"),
        ("prams.a", "'prams' is unknown; a reference begins with params"),
        ("env.HOME", "a workflow reads no 'env'"),
        ("params.a = 1", "to compare write =="),
        ("params.a == 1 == 2", "has two sides; join several with 'and'"),
        ("params.a params.b", "expected 'and', 'or' or a comparison, got 'params.b'"),
        ("params.a == '${params.b}'", "in quotes stays as it is"),
        ("params.a not params.b", "expected 'and', 'or' or a comparison, got 'not params.b'"),
        ("(params.a", "a parenthesis is not closed"),
        ("${params.a", "a reference ends with }"),
        ("params.", "expected a key after the dot"),
        ("params[a]", "expected a position such as [0]"),
        ("params['a'", "a bracket is not closed"),
        ("params.a == 1e999", "expected a value as JSON writes it"),
        ("params.a == [NaN]", "expected a value as JSON writes it"),
        ("params.a == 007", "expected a reference or a value"),
        ("and", "expected a reference or a value, got 'and'"),
        ("params.a == ++1", "expected a reference or a value, got '++1'"),
        ("__import__('os')", "'__import__' is unknown"),
        ("(" * 21 + "params.a" + ")" * 21, "nested deeper than 20 levels"),
        ("params.a" + " " * MAX_LENGTH, f"at most {MAX_LENGTH} characters"),
    ],
)
def test_mistakes(text: str, told: str) -> None:
    """D21: what is no condition says what was expected, and where."""
    with pytest.raises(ExpressionError) as caught:
        parse_condition(text)
    assert told in str(caught.value)


def test_a_long_reference() -> None:
    """A reference is bounded too, wherever in a text it stands."""
    with pytest.raises(ExpressionError, match=str(MAX_LENGTH)):
        read_reference("params.a" + ".a" * MAX_LENGTH + "}", 0)


def test_paths_of() -> None:
    """Every path in an expression is found, so that each is checked when the file is loaded."""
    node = parse_condition("not (params.a == 1 and params.b ?? false) or params.c in [1]")
    assert list(paths_of(node)) == [A, B, C]
    assert list(paths_of(Literal(1))) == []


@pytest.mark.parametrize(
    "text", ["params.a", "steps.x.output[0].y[-2]", 'item["a b"].c', 'params["é\\""]']
)
def test_a_path_shows_as_it_is_written(text: str) -> None:
    """Messages name a path so that it can be copied back."""
    path = parse_condition(text)
    assert str(path) == text
    assert parse_condition(str(path)) == path


PARTS = "params.a|steps.b.output|item|(|)|not|and|or|in|==|<|??|1|'x'|[1]|{}|null|${|}|[|]|.|-|é|\0"
WORDS = st.sampled_from(PARTS.split("|"))


@given(st.lists(WORDS, max_size=30).map(" ".join) | st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    """A text is an expression or an `ExpressionError` that says why, never another exception."""
    for read in (parse_condition, lambda text: read_reference(text, 0)):
        found: object = None
        try:
            found = read(text)
        except ExpressionError as error:
            found = str(error)
        assert found
