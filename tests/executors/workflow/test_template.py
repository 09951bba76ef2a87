"""How values with references are filled in."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tool_engine.executors.workflow.evaluation import LEFT_OUT, EvaluationError, Scope
from tool_engine.executors.workflow.template import (
    MAX_TEXT,
    Places,
    has_references,
    parse_template,
    references_in,
    render_tree,
)

HOSTILE = "${params.secret} $${x} ${env:HOME} {x}"
SCOPE = Scope(
    {"n": 3, "text": "abc", "map": {"a": [1, None]}, "yes": True, "half": 0.5, "secret": "s3cret"},
    {"a": {"output": {"text": HOSTILE}}},
)


def rendered(value: Any, scope: Scope = SCOPE) -> Any:
    wrong: Places = []
    tree = parse_template(value, wrong)
    assert wrong == []
    return render_tree(tree, scope)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("${params.n}", 3),
        ("${params.map}", {"a": [1, None]}),
        ("${params.n} of ${params.half}", "3 of 0.5"),
        ("<${params.map}>", '<{"a":[1,null]}>'),
        ("yes: ${params.yes}", "yes: true"),
        ("$${params.n}", "${params.n}"),
        ("$$${params.n}", "$${params.n}"),
        ("$${a} ${params.n}", "${a} 3"),
        ("costs $5 {n}", "costs $5 {n}"),
        ("", ""),
        (5, 5),
        ({"a": ["${params.text}", 1, None]}, {"a": ["abc", 1, None]}),
        ({"a": "${params.gone}", "b": ["${params.gone}", 2]}, {"b": [2]}),
        ("${params.gone ?? 'x'}${params.gone ?? 1}", "x1"),
    ],
)
def test_values(value: Any, expected: Any) -> None:
    """D21: a whole reference keeps its type, inside a text it becomes text, the rest stays."""
    found = rendered(value)
    assert found == expected
    assert type(found) is type(expected)


def test_nothing_is_read_twice() -> None:
    """D21: what a tool returned stays text, though it looks like a reference."""
    assert rendered("${steps.a.output.text}") == HOSTILE
    assert rendered("<${steps.a.output.text}>") == f"<{HOSTILE}>"
    assert rendered(["${steps.a.output}"]) == [{"text": HOSTILE}]


@given(st.text())
def test_any_value_stays_as_it_is(text: str) -> None:
    """D21: whatever a value holds, it comes out as it went in, alone and inside a text."""
    scope = Scope({"x": text, "secret": "s3cret"}, {})
    assert rendered("${params.x}", scope) == text
    assert rendered("a${params.x}b${params.x}", scope) == f"a{text}b{text}"


def test_left_out() -> None:
    """A parameter that the call left out is left out of what is passed on."""
    assert rendered("${params.gone}") is LEFT_OUT


@pytest.mark.parametrize(
    ("value", "scope", "told"),
    [
        ("a ${params.gone}", SCOPE, "${params.gone} inside a text is null; write what stands"),
        ("a ${params.x ?? null}", SCOPE, "a reference inside a text is null"),
        ("a ${params.x}", Scope({"x": object()}, {}), "a object cannot be put into a text"),
        ("${params.n.x}", SCOPE, "there is no params.n.x"),
    ],
)
def test_what_cannot_be_put_in(value: Any, scope: Scope, told: str) -> None:
    """D21: the word null is never put into a text by mistake."""
    with pytest.raises(EvaluationError) as caught:
        rendered(value, scope)
    assert told in str(caught.value)


def test_a_text_is_bounded() -> None:
    """D21: steps that double a text again and again end with an error, not without memory."""
    assert len(rendered("${item}${item}", Scope({}, {}, "a" * (MAX_TEXT // 2), 0))) == MAX_TEXT
    with pytest.raises(EvaluationError, match="10000001 characters; the most is 10000000"):
        rendered("${item}${item}.", Scope({}, {}, "a" * (MAX_TEXT // 2), 0))


def test_mistakes_are_all_told() -> None:
    """D21: each mistake with its place, all at once; the rest is read."""
    wrong: Places = []
    tree = parse_template(
        {"a": ["${x}", "${params.n"], "${params.k}": 1, "b": "${params.n}"}, wrong
    )
    assert [place for place, _ in wrong] == ["", ".a[0]", ".a[1]"]
    assert "only values may" in wrong[0][1]
    assert [str(path) for path in references_in(tree)] == ["params.n"]
    assert has_references(tree)
    assert not has_references({"a": ["x", 1]})


def test_many_references_take_linear_time() -> None:
    """A long text is read once: ten times the text is not a hundred times the work."""
    count = 20_000
    assert rendered("${params.n}" * count) == "3" * count
    assert rendered("$${" * count) == "${" * count
