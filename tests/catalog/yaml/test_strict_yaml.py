"""Can YAML text mean only what its author sees?"""

from __future__ import annotations

import re

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tool_engine.catalog.limits import MAX_BYTES, MAX_DEPTH, MAX_PROBLEMS
from tool_engine.catalog.strict_yaml import load_all
from tool_engine.catalog.yaml import strict_yaml
from tool_engine.catalog.yaml.document import format_path
from tool_engine.catalog.yaml.strict_yaml import load_documents, parse_yaml
from tool_engine.errors import DefinitionError, DefinitionProblem


@pytest.fixture(params=["native", "portable"], autouse=True)
def parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Every rule holds with PyYAML's C parser and without it."""
    if request.param == "portable":
        monkeypatch.setattr(strict_yaml, "_NativeParser", None)
    return str(request.param)


def problems_of(text: str | bytes) -> list[DefinitionProblem]:
    with pytest.raises(DefinitionError) as caught:
        load_documents(text, "x.yaml")
    assert all(problem.file == "x.yaml" for problem in caught.value.problems)
    return list(caught.value.problems)


def test_values_and_positions() -> None:
    """K3: every key and value is found at its line and column."""
    text = "a: 1\nb:\n  - x\n  - {c: [2, 3], 'd e': yes}\n"
    (document,) = load_documents(text, "x.yaml")
    assert document.value == {"a": 1, "b": ["x", {"c": [2, 3], "d e": "yes"}]}
    assert document.position(()) == (1, 1)
    assert document.position(("a",)) == (1, 4)
    assert document.position(("a",), of_key=True) == (1, 1)
    assert document.position(("b", 1, "c", 1)) == (4, 13)
    assert document.position(("b", 1, "d e"), of_key=True) == (4, 17)
    assert document.position(("b", 1, "d e", "missing", 3)) == (4, 24)
    assert document.position(("b", 7)) == (3, 3)
    assert "'x'" in repr(document)


def test_each_mark_has_its_path() -> None:
    """K3: a mark's number leads back to the path of its key or value."""
    (document,) = load_documents("a: {b: 1}\nc: [x, {d: 2}]\n", "x.yaml")
    paths = [format_path(path) for path in document.paths_at(range(99)).values()]
    assert paths == ["", "a", "a", "a.b", "a.b", "c", "c", "c[0]", "c[1]", "c[1].d", "c[1].d"]
    assert document.paths_at([3]) == {3: ("a", "b")}


def test_documents() -> None:
    """K3: several documents are told apart; comments alone are none."""
    assert [document.value for document in load_documents("a: 1\n---\n- 2\n---\n", "x")] == [
        {"a": 1},
        [2],
        None,
    ]
    assert load_documents("# nothing\n", "x") == []
    assert load_documents(b"", "x") == []


def test_text_forms() -> None:
    """K3: quoted, literal and tagged text is text; a BOM and CRLF change nothing."""
    text = "\ufeffa: '1'\r\nb: \"2\"\r\nc: !!str 3\r\nd: |\r\n  4\r\ne: !!int 5\r\nf: !!float 6\r\n"
    (document,) = load_documents(text.encode(), "x")
    assert document.value == {"a": "1", "b": "2", "c": "3", "d": "4\n", "e": 5, "f": 6}
    assert load_documents("%YAML 1.2\n---\n!!map {a: !!seq [!!null null, !!bool true]}\n...", "x")[
        0
    ].value == {"a": [None, True]}


@pytest.mark.parametrize(
    ("text", "place", "path", "words"),
    [
        ("a: 1\nb: {c: 1, c: {d: *x}}\n", (2, 11), "b.c", "'c' is already given on line 2"),
        ("a: &x 1\n", (1, 4), "a", "anchor &x"),
        ("a: &x [1]\n", (1, 4), "a", "anchor &x"),
        ("a: &x 'q'\n", (1, 4), "a", "anchor &x"),
        ("a: *x\n", (1, 4), "a", "alias *x"),
        ("<<: {a: 1}\n", (1, 1), "<<", "merge key"),
        ("a: !!python/object:os.system x\n", (1, 4), "a", "tag !!python/object:os.system"),
        ("a: !mine {b: 1}\n", (1, 4), "a", "tag !mine"),
        ("a: !!set [1]\n", (1, 4), "a", "tag !!set"),
        ("a: !!int x\n", (1, 4), "a", "does not fit its tag"),
        ("a: !!bool 1\n", (1, 4), "a", "does not fit its tag"),
        ("a: .inf\n", (1, 4), "a", "JSON can carry"),
        ("1: a\n", (1, 1), "1", 'quote it: "1"'),
        ("~: a\n", (1, 1), "~", "must be text"),
        ("!!int 1: a\n", (1, 1), "1", "remove its tag"),
        ('a: "\\0"\n', (1, 4), "a", "NUL"),
        ("%YAML 1.1\n---\na: no\n", (1, 1), "", "%YAML"),
        ("? [a]\n: 1\n", (1, 3), "", "a key must be text"),
        ("a: [1\nb: 2\n", (2, 2), "", "not valid YAML"),
        ("a:\n\tb: 1\n", (2, 1), "", "indent with spaces"),
        ("a: b: c\n", (1, 5), "", "not valid YAML"),
        ("a: 'x\n", (2, 1), "", "not valid YAML"),
    ],
)
def test_refused(text: str, place: tuple[int, int], path: str, words: str) -> None:
    """K3: what two readers could understand differently is refused, with its place and a cure."""
    problem = problems_of(text)[0]
    assert (problem.line, problem.column) == place
    assert problem.path == path
    assert words in problem.message


@pytest.mark.parametrize(
    ("data", "place", "words"),
    [
        (b"a: \xff\n", (1, 4), "0xFF is not UTF-8"),
        (b"\n\xc3(", (2, 1), "not UTF-8"),
        (b"\xff\xfea\0", (1, 1), "UTF-16"),
        (b"a: 1\r\nb: \0", (2, 4), "U+0000"),
        (b"a: \x1b[0m", (1, 4), "U+001B"),
        ("a: x # \u2028b: 1".encode(), (1, 8), "U+2028"),
        ("a: x\rb: \x85".encode(), (2, 4), "U+0085"),
        ("a: \ufeff".encode(), (1, 4), "U+FEFF"),
    ],
)
def test_characters_that_hide_are_refused(data: bytes, place: tuple[int, int], words: str) -> None:
    """K3: text is UTF-8 without characters that an editor does not show."""
    (problem,) = problems_of(data)
    assert (problem.line, problem.column) == place
    assert words in problem.message


def test_half_a_surrogate_pair_is_refused() -> None:
    """K3: text that could not be written back is refused, escaped or not."""
    assert "U+D800" in problems_of("a: \ud800")[0].message
    assert problems_of('a: "\\ud800"')


def test_size() -> None:
    """K3: more than 1 MiB is refused before it is read, and 1 MiB is not; bytes count."""
    (problem,) = problems_of("#" * (MAX_BYTES + 1))
    assert str(MAX_BYTES + 1) in problem.message
    assert load_documents("#" * MAX_BYTES, "x") == load_documents(b"#" * MAX_BYTES, "x") == []
    assert problems_of("#" * (MAX_BYTES - 1) + "é")


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ("{a: ", "}"), ("- ", "\n")])
def test_depth(opening: str, closing: str) -> None:
    """K3: nesting is bounded, so nothing recurses without end; a scalar is no level."""
    levels = MAX_DEPTH
    assert load_documents(opening * levels + "x" + closing * levels, "x")
    (problem,) = problems_of(opening * (levels + 1) + "x" + closing * (levels + 1))
    assert "50 levels" in problem.message
    assert problem.column == len(opening) * levels + 1


@pytest.mark.parametrize("item", ["x,", "[],", "{},", "a: 1,", "[[[]]],"])
def test_number_of_values(monkeypatch: pytest.MonkeyPatch, item: str) -> None:
    """K3: a definition that is nothing but values is given up, whatever they are."""
    monkeypatch.setattr(strict_yaml, "MAX_VALUES", 10)
    assert (
        "more than 10 keys and values in one definition" in problems_of(f"[{item * 20}]")[0].message
    )


def test_number_of_values_of_all_documents(monkeypatch: pytest.MonkeyPatch) -> None:
    """K3: many small documents are bounded as well as a large one."""
    monkeypatch.setattr(strict_yaml, "MAX_VALUES_OF_FILE", 10)
    assert len(load_documents("--- [a]\n" * 5, "x")) == 5
    (problem,) = problems_of("--- [a]\n" * 6)
    assert "more than 10 keys and values in one file" in problem.message
    assert problem.line == 6


def test_all_faults_at_once_up_to_a_limit() -> None:
    """K3: one look shows every fault, and a hostile file shows only the first hundred."""
    assert [problem.line for problem in problems_of("a: *x\nb: .nan\na: 1\n1: !q z\n")] == [
        1,
        2,
        3,
        4,
        4,
    ]
    assert len(problems_of("a: 1\n" * 5000)) == MAX_PROBLEMS


def test_faults_before_a_syntax_error_are_kept() -> None:
    """K3: a fault that was found is told although the text breaks later."""
    assert [problem.line for problem in problems_of("a: *x\nb: [\n")] == [1, 3]


def test_a_duplicate_does_not_shift_other_places() -> None:
    """K3: places after a duplicate key are still right."""
    documents, problems = parse_yaml("a: 1\na: [{x: 1}, *y]\nb: 2\n", "x")
    assert len(problems) == 1
    assert documents[0].value == {"a": 1, "b": 2}
    assert documents[0].position(("b",)) == (3, 4)


def test_the_faults_of_a_duplicate_go_with_it() -> None:
    """K3: what is wrong with a value that is not kept is not told under another's path."""
    problems = problems_of("a: 1\n!x a: *b\nb: *c\n")
    assert [(problem.line, problem.path) for problem in problems] == [(2, "a"), (3, "b")]


def test_every_document_is_checked() -> None:
    """K3: the faults of all documents are told at once, each with its own path and line."""
    problems = problems_of("a: [*x]\n---\nb: {c: *y}\n...\n# a comment\n--- !z\nd: 1\n")
    assert [(problem.line, problem.column, problem.path) for problem in problems] == [
        (1, 5, "a[0]"),
        (3, 8, "b.c"),
        (6, 5, ""),
    ]


def test_positions_of_later_documents() -> None:
    """K3: lines count from the beginning of the file, paths from that of the document."""
    documents = load_documents("a: 1\r\n--- {b: [2]}\r\n...\r\n---\r\n# x\r\nc: 1.10\r\n", "x")
    assert [document.position(()) for document in documents] == [(1, 1), (2, 5), (6, 1)]
    assert documents[1].position(("b", 0)) == (2, 10)
    (mark,) = documents[2].marks([(("c",), False)])
    assert documents[2].number_as_written(("c",), mark) == "1.10"


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("1.10", "1.10"),
        ("0x1F # a comment", "0x1F"),
        ("+7", "+7"),
        ("!!float 1e3", "1e3"),
        ("'1'", None),
        ("true", None),
        ("{a: 2.50}", None),
    ],
)
def test_numbers_as_written(text: str, written: str | None) -> None:
    """K4: an error shows a number as its author sees it."""
    (document,) = load_documents(f"é: 😀\nk: {text}\n", "x")
    (mark,) = document.marks([(("k",), False)])
    assert document.number_as_written(("k",), mark) == written
    assert document.number_as_written(("k", "gone", 3), mark) is None
    assert document.number_as_written(("é", 0), mark) is None


def test_a_text_with_a_beginning_has_an_end() -> None:
    """K3: a text that begins with %YAML and was cut anywhere is refused."""
    whole = "%YAML 1.2\n---\nname: t\neffect: write\ntags: [a]\n...\n"
    (document,) = load_documents(whole, "x")
    for end in range(1, len(whole)):
        documents, problems = parse_yaml(whole[:end], "x")
        assert problems or [each.value for each in documents] == [document.value]
    assert "ends with a line ..." in problems_of(whole.replace("...\n", ""))[0].message


def test_aliases() -> None:
    """K3: where they are allowed, an alias is a copy of what it names, at its own place."""
    text = "a: &x {b: [1, &y two]}\nc: *x\nd: [*y, *x]\n"
    assert problems_of(text)
    (document,) = load_documents(text, "x", allow_aliases=True)
    inner = {"b": [1, "two"]}
    assert document.value == {"a": inner, "c": inner, "d": ["two", inner]}
    value = document.value
    assert value["a"] is not value["c"] is not value["d"][1]
    assert value["a"]["b"] is not value["c"]["b"]
    assert document.position(("c",)) == (2, 4)
    assert document.position(("c", "b", 1)) == (1, 15)
    assert document.position(("d", 0)) == (3, 5)
    assert document.position(("d", 1)) == (3, 9)


@pytest.mark.parametrize(
    ("text", "place", "path", "words"),
    [
        ("a: *x\n", (1, 4), "a", "names nothing above it"),
        ("a: *x\nb: &x 1\n", (1, 4), "a", "names nothing above it"),
        ("a: &x 1\n---\nb: *x\n", (3, 4), "b", "names nothing above it"),
        ("a: &x [*x]\n", (1, 8), "a[0]", "stands inside what it names"),
        ("a: &x {b: {c: *x}}\n", (1, 15), "a.b.c", "stands inside what it names"),
        ("a: &x 1\nb: &x 2\n", (2, 4), "b", "&x is given twice"),
        ("&x a: 1\n", (1, 1), "a", "stands at a key"),
        ("a: &x {b: 1}\n*x : 2\n", (2, 1), "", "a key must be text"),
        ("a: &x {b: 1}\n<<: *x\n", (2, 1), "<<", "merge key"),
        ("a: 1\na: &x 2\nb: *x\n", (2, 1), "a", "already given"),
    ],
)
def test_aliases_that_are_refused(text: str, place: tuple[int, int], path: str, words: str) -> None:
    """K3: aliases that mean nothing, or merge, are refused even where aliases are allowed."""
    with pytest.raises(DefinitionError) as caught:
        load_documents(text, "x", allow_aliases=True)
    (problem,) = caught.value.problems
    assert (problem.line, problem.column, problem.path) == (*place, path)
    assert words in problem.message


def test_aliases_stay_within_the_limits() -> None:
    """K3: what aliases stand for counts, so a billion laughs end at once."""
    laughs = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"{chr(n)}: &{chr(n)} [{', '.join([f'*{chr(n - 1)}'] * 9)}]\n" for n in range(98, 111)
    )
    _, problems = parse_yaml(laughs, "x", allow_aliases=True)
    assert "keys and values in one definition" in problems[-1].message
    nested = "a: &a " + "[" * 40 + "]" * 40 + "\nb: " + "[" * 11 + "*a" + "]" * 11 + "\n"
    _, problems = parse_yaml(nested, "x", allow_aliases=True)
    assert "nested more than 50" in problems[-1].message
    wide = "a: &a [" + "x," * 15000 + "]\nb: *a\n"
    assert parse_yaml(wide, "x", allow_aliases=True)[1]


def test_paths_are_written_as_people_do() -> None:
    """K3: a path reads as in the text; a key that is a whole page is cut."""
    assert len(format_path(("a", "k" * 1000, 1))) < 100
    assert format_path(("parameters", 2, "validation", "min")) == "parameters[2].validation.min"
    assert format_path(("a b", "c")) == "['a b'].c"


@pytest.mark.parametrize(
    "text",
    [
        "[",
        "{",
        "- ",
        "? ",
        '"',
        "a: ",
        "&a ",
        "!",
        "%",
        "a\n",
        "- *a\n",
        "9",
        "\\",
        "|",
        "{a,",
        "-\n",
    ],
)
def test_hostile_repetition_ends(text: str, parser: str) -> None:
    """K3: no text hangs or crashes the reader; it is a value or a list of problems."""
    size = 50_000 if parser == "native" else 500
    documents, problems = parse_yaml(text * size, "x")
    assert documents or problems


@given(st.text(alphabet="ab:-[]{}#&*!|>'\"% \n\t,?0.~<", max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    """K3: whatever the text, the result is a document or a `DefinitionError`."""
    documents, problems = parse_yaml(text, "x")
    assert all(problem.file == "x" for problem in problems)
    assert all(document.position(()) for document in documents)


@given(
    st.recursive(
        st.text(max_size=8).filter(lambda text: "\0" not in text) | st.integers(-99, 99),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", max_size=3), inner)
        ),
        max_leaves=12,
    )
)
def test_json_reads_as_itself(value: object) -> None:
    """K3: quoted text and plain numbers are read exactly."""
    text = yaml.safe_dump(value, default_style='"').replace("!!int ", "")
    plain = _numbers_as_text(value)
    assert load_documents(text, "x")[0].value == plain


def _numbers_as_text(value: object) -> object:
    if isinstance(value, int):
        return str(value)
    if isinstance(value, list):
        return [_numbers_as_text(item) for item in value]
    if isinstance(value, dict):
        return {key: _numbers_as_text(item) for key, item in value.items()}
    return value


def test_an_unknown_event_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """K3: whatever the parser sends, reading ends."""
    monkeypatch.setattr(strict_yaml, "_event_source", lambda text: lambda: None)
    (problem,) = problems_of("a: 1")
    assert "imported twice" in problem.message
    assert problem.line is None


def test_values_alone() -> None:
    """K3: `load_all` gives the values, as other readers of YAML do; errors are the same."""
    assert load_all("a: no\n---\n- 1.5\n", "x.yaml") == [{"a": "no"}, [1.5]]
    assert load_all("# nothing", "x.yaml") == []
    with pytest.raises(DefinitionError, match=r"x\.yaml:2:1"):
        load_all("a: 1\na: 2\n", "x.yaml")


ODD = {
    "{ ?foo: bar }": "begins with ?",
    "[?x]": "begins with ?",
    '{a: 1, ?"b": 2}': "begins with ?",
    "[ a,\n  ?b ]": "begins with ?",
    "- |+\n   ": "a line of blanks",
    "foo: |\n  x\n   ": "a line of blanks",
    "foo: >+\n  x\n ": "a line of blanks",
    'key: "v"#c': "a comment needs a blank",
    "key: 'v'#c\n": "a comment needs a blank",
    "key: [a]#c": "a comment needs a blank",
    "- {a: b}#c": "a comment needs a blank",
    '"k"#c\n: 1': "a comment needs a blank",
    "a: &an:chor x": "name of an anchor",
}


@pytest.mark.parametrize("text", ODD)
def test_what_the_parser_reads_otherwise_is_refused(text: str) -> None:
    """Where libyaml and YAML 1.2 differ, the author's editor would show another value.

    Looked at: question marks, comments behind quotes and brackets, blanks at the end of the text,
    names of anchors; in lists, mappings, keys and values.
    """
    with pytest.raises(DefinitionError, match=re.escape(ODD[text])) as caught:
        load_all(text, "x.yaml", allow_aliases=True)
    assert caught.value.line is not None
    assert any(problem.cure for problem in caught.value.problems)


ORDINARY = {
    "{ ? foo: bar }": {"foo": "bar"},
    "a: why?b": {"a": "why?b"},
    "?foo: bar": {"?foo": "bar"},
    '["?x"]': ["?x"],
    'a: "x" #c': {"a": "x"},
    "a: b#c": {"a": "b#c"},
    "a: '\"#\"'": {"a": '"#"'},
    "a: |\n  x\n ": {"a": "x\n"},
    "a: b\n   ": {"a": "b"},
    "a: |\n  x\nb: c\n  ": {"a": "x\n", "b": "c"},
    "x: &a-1 [1]\ny: *a-1": {"x": [1], "y": [1]},
    "x: {k: &a 1, y: *a}": {"x": {"k": 1, "y": 1}},
}


@pytest.mark.parametrize("text", ORDINARY)
def test_what_only_looks_odd_is_read(text: str) -> None:
    """Question marks, hashes and blanks that have one reading stay."""
    assert load_all(text, "x.yaml", allow_aliases=True) == [ORDINARY[text]]
