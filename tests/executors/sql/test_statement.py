"""Values have places, and everything else of a text is text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.growth import growth_of
from tool_engine.executors.sql.statement import (
    Dialect,
    Identifier,
    Membership,
    StatementError,
    Value,
    parse_statement,
)

DIALECT = Dialect(mark="$", member="= ANY({})", not_member="<> ALL({})", null_test="::text")


def rendered(sql: str, *lists: str, **chosen: str) -> tuple[str, list[str]]:
    return parse_statement(sql).render(DIALECT, lists, chosen)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT ':a', ''':a', '''' || 'x:a'",
        'SELECT ":a" FROM "x"":a"',
        "SELECT `:a`",
        r"SELECT E'\':a', e'\\:a'",
        "SELECT $$:a$$, $tag$ $$ :a ' $tag$",
        "SELECT 1 -- :a ; {b} '",
        "SELECT 1 /* :a ; {b} ' */ + 1",
        "SELECT 1::int, now()::date, f(a := 1)",
        "SELECT '{1,2}'::int[], a[1:2]",
        "SELECT '12:30', x->'$.a'",
        "SELECT a$b, x ? 'k', 1e5, 0x1F, 1.5",
        "SELECT 'a;b', \";\", $$;$$",
    ],
)
def test_what_looks_like_a_parameter_and_is_none(sql: str) -> None:
    """Strings, quoted names, comments and casts are left as they are, to the letter."""
    statement = parse_statement(sql)
    assert (statement.values, statement.identifiers) == (set(), set())
    assert rendered(sql) == (sql, [])


def test_a_value_has_a_number_and_keeps_it() -> None:
    """A parameter that is used twice is sent once: both uses have one type."""
    sql = "SELECT :b::int + :a WHERE :b IS NULL OR x=:b"
    assert rendered(sql) == (
        "SELECT $1::int + $2 WHERE $3::text IS NULL OR x=$1",
        ["b", "a", "b"],
    )
    assert rendered("SELECT :a is /* x */ not null, :a IS NOT 1, :a IS TRUE")[0] == (
        "SELECT $1::text is /* x */ not null, $2 IS NOT 1, $2 IS TRUE"
    )
    assert parse_statement("SELECT :größe").values == {"größe"}


@pytest.mark.parametrize(
    ("sql", "as_list", "as_value"),
    [
        ("x IN :n", "x = ANY($1)", "x IN ($1)"),
        ("x in(:n)", "x = ANY($1)", "x IN ($1)"),
        ("x NOT  IN /* c */ ( :n ) AND y", "x <> ALL($1) AND y", "x NOT IN ($1) AND y"),
        ("x not in :n", "x <> ALL($1)", "x NOT IN ($1)"),
        ("x IN (:n, 1)", "x IN ($1, 1)", "x IN ($1, 1)"),
        ("NOT x IN :n", "NOT x = ANY($1)", "NOT x IN ($1)"),
    ],
)
def test_a_list_is_asked_for_a_member(sql: str, as_list: str, as_value: str) -> None:
    """`IN :names` and `IN (:names)` take a list of any length, which is one value too."""
    assert rendered(f"SELECT {sql}", "n")[0] == f"SELECT {as_list}"
    assert rendered(f"SELECT {sql}")[0] == f"SELECT {as_value}"


def test_pieces() -> None:
    """The pieces are in order, and nothing of the text is lost."""
    statement = parse_statement("SELECT {c} FROM t WHERE a=:a AND b NOT IN :b;")
    assert statement.pieces == (
        "SELECT ",
        Identifier("c"),
        " FROM t WHERE a=",
        Value("a"),
        " AND b ",
        Membership("b", True, False),
    )
    assert rendered("SELECT {c}, {c}", c='"id"')[0] == 'SELECT "id", "id"'


@pytest.mark.parametrize(
    ("sql", "keyword", "inner"),
    [
        (" -- x\n select 1", "SELECT", set()),
        ("((SELECT 1))", "SELECT", {"SELECT"}),
        ("WITH a AS (DELETE FROM t RETURNING 1) SELECT 1", "WITH", {"DELETE"}),
        ("values (1)", "VALUES", set()),
        ("(", "(", set()),
    ],
)
def test_keywords(sql: str, keyword: str, inner: set[str]) -> None:
    """What a statement does at its beginning and within parentheses is known at load."""
    statement = parse_statement(sql)
    assert (statement.keyword, set(statement.inner_keywords)) == (keyword, inner)


@pytest.mark.parametrize(
    ("sql", "part"),
    [
        ("", "holds no statement"),
        (" ; -- x", "holds no statement"),
        ("SELECT 1; SELECT 2", "more than one statement: 'SELECT' follows a semicolon"),
        ("SELECT 1;;DROP TABLE t", "'DROP' follows"),
        ("SELECT '; SELECT 2", "a string without end"),
        ('SELECT "a', "a quoted name without end"),
        ("SELECT `a", "a quoted name without end"),
        ("SELECT $x$ y", "a string without end: '$x$'"),
        ("SELECT 1 /* x", "a comment without end"),
        ("SELECT 1 /* x /* y */ z */", "a comment inside a comment"),
        ("SELECT $1", "has '$1'; write a value's place as :name"),
        ("SELECT ?1", "has '?1'"),
        ("SELECT $name", "has '$name'"),
        ("SELECT 1\0", "a NUL character"),
    ],
)
def test_what_is_not_one_statement(sql: str, part: str) -> None:
    """It is refused when the tool is read, with the reason."""
    with pytest.raises(StatementError) as caught:
        parse_statement(sql)
    assert part in str(caught.value)


def test_a_semicolon_at_the_end_is_no_second_statement() -> None:
    """People write it, and comments behind it."""
    assert rendered("SELECT 1 ; -- done\n ;")[0] == "SELECT 1 "


@given(st.text(alphabet="ab:'\"$;-/*{}()[]\\ \n?@eEIN", max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    """Garbage ends as an error of its own kind; what is read renders to the text again."""
    try:
        statement = parse_statement(text)
    except StatementError:
        return
    if not statement.values and not statement.identifiers:
        assert text.startswith(statement.render(DIALECT, (), {})[0])


@pytest.mark.parametrize(
    "unit",
    [
        *("UNION ALL SELECT 1 ", "AND :a = :b ", "OR a IN (:a) ", "OR NOT NOT NOT "),
        *("/**/", "IN /**/", ":a IS /**/", "(SELECT ", "{a} ", "''", "e'\\'' ", "$a$ $b$ $a$ "),
    ],
)
def test_a_long_statement(unit: str) -> None:
    """The time to read a statement grows with its length, whatever it repeats."""
    growth = growth_of(parse_statement, lambda n: "SELECT 1 " + unit * n, most=6000)
    assert growth.exponent < 1.4, growth


def test_a_statement_of_a_book() -> None:
    """A statement that would hold up the event loop is refused, with the way out."""
    with pytest.raises(StatementError, match="at most 100000; put what is long into a view"):
        parse_statement("SELECT 1 " + "UNION ALL SELECT 1 " * 10_000)
