"""What may stand under `examples` and `tests` in a definition?"""

from __future__ import annotations

import pytest

from tool_engine.catalog.loader import ToolConfigLoader
from tool_engine.errors import DefinitionError
from tool_engine.model.outcome import ErrorType

MANY = ", ".join(f"f{number}: x" for number in range(101))
HEAD = "name: x\ndescription: y\n"
EXCHANGE = "http: [{request: {url: 'http://a.b/c'}, response: {}}]"


def exchange(request: str, response: str = "{}") -> str:
    """The key `tests` with one test, which has one recorded exchange."""
    http = f"[{{request: {request}, response: {response}}}]"
    return f"tests: [{{params: {{}}, expect: 1, http: {http}}}]"


ACCEPTED = [
    "examples: [{params: {}}]",
    "examples: [{params: {a: 1}, description: d, output: null}]",
    f"examples: [{{params: {{}}, output: 1, env: {{A: x}}, {EXCHANGE}}}]",
    "tests: [{params: {}, expect: null}]",
    "tests: [{params: {}, expect_part: {a: 1}, name: n}, {params: {}, expect: [], name: m}]",
    "tests: [{params: {}, expect_error: timeout}]",
    "tests: [{params: {}, expect_error: out_of_stock}]",
    "tests: [{params: {}, expect_error: not_found}]",
    "tests: [{params: {}, expect_error: {error_type: timeout, message: slow}}]",
    f"tests: [{{params: {{}}, expect: 1, {EXCHANGE}}}]",
    "tests: [{params: {}, expect_files: {a/b.txt: x, .c/..d/...: null}}]",
    "tests: [{params: {}, expect: 1, files: {}, command: {}, sources: {s: ''}}]",
    "tests: [{params: {}, expect: 1, files: {a: x, 'b c/你.好': ''}, command: [{argv: [a]}, {}]}]",
    "examples: [{params: {}, output: 1, files: {a: x}, expect_files: {a: null}}]",
    "examples: [{params: {}, output: 1, command: {exit_code: -9, stdout: a}, sources: {s: x}}]",
    exchange(
        "{method: POST, url: 'https://a/b?c=d', query: {e: [1, f]}, headers: {A: b}, body: c}",
        "{status: 204, headers: {X-B: c}, json: null}",
    ),
]
REFUSED = [
    *(
        (f"tests: [{{params: {{}}, expect: 1, {key}: {{{path}: x}}}}]", f"tests[0].{key}")
        for key in ("files", "expect_files")
        for path in ('""', ".", "..", "/a", "a/", "a//b", "a/../b", "./a", '"a\\b"', '"a\tb"')
    ),
    (
        "tests: [{params: {}, expect: 1, files: {/a: x}}]",
        "tests[0].files./a: the name '/a' is not allowed; write the path of a file, such as",
    ),
    (
        "tests: [{params: {}, expect: 1, env: {1a: x}}]",
        "tests[0].env.1a: the name '1a' is not allowed; name an environment variable with letters",
    ),
    ("tests: [{params: {}, expect: 1, files: {a: null}}]", "tests[0].files.a: expected text"),
    ("tests: [{params: {}, expect: 1, files: {a: 1}}]", "tests[0].files.a: expected text"),
    ("tests: [{params: {}, expect: 1, expect_files: {}}]", "expect_files: must not be empty"),
    (
        "tests: [{params: {}, expect: 1, expect_files: {a: 1}}]",
        "expect_files.a: expected null or text, got the number 1",
    ),
    (
        "tests: [{params: {}, expect: 1, files: {a: x, a/b/c: y}}]",
        "is below 'a', which is a file; rename one",
    ),
    (
        f"tests: [{{params: {{}}, expect: 1, files: {{{'a/' * 21}b: x}}}}]",
        "leads through 21 folders; at most 20 are made",
    ),
    (
        f"tests: [{{params: {{}}, expect: 1, files: {{{MANY}}}}}]",
        "tests[0].files: are 101 files of 101 bytes; a test has at most 100 files",
    ),
    ("tests: [{params: {}, files: {a: x}}]", "the test does not say what must come of it"),
    ("examples: [{params: {}, files: {a: x}}]", "its files means nothing"),
    ("examples: [{params: {}, sources: {a: x}}]", "its sources means nothing"),
    ("examples: [{params: {}, command: {}}]", "its command means nothing"),
    ("examples: [{params: {}, expect_files: {a: x}}]", "its expect_files means nothing"),
    (
        "tests: [{params: {}, expect: 1, command: ls}]",
        "tests[0].command: expected a list or a mapping",
    ),
    ("tests: [{params: {}, expect: 1, command: []}]", "tests[0].command: must not be empty"),
    ("tests: [{params: {}, expect: 1, command: {argv: ls}}]", "command.argv: expected a list"),
    ("tests: [{params: {}, expect: 1, command: {argv: []}}]", "argv: must not be empty"),
    ("tests: [{params: {}, expect: 1, command: [{stdin: a}]}]", "unknown key 'stdin'"),
    ("tests: [{params: {}, expect: 1, command: {exit_code: 256}}]", "at most 255"),
    ("tests: [{params: {}, expect: 1, sources: {}}]", "tests[0].sources: must not be empty"),
    ("tests: [{params: {}, expect: 1, sources: {a: [x]}}]", "sources.a: expected text, got a list"),
    ("examples: {params: {}}", "examples: expected a list"),
    ("examples: []", "examples: must not be empty"),
    ("examples: [1]", "examples[0]: expected a mapping"),
    ("examples: [{}]", "the key 'params' is missing"),
    ("examples: [{params: [1]}]", "examples[0].params: expected a mapping"),
    ("examples: [{params: {}, expect: 1}]", "examples[0].expect: unknown key 'expect'"),
    ("examples: [{params: {}, env: {A: b}}]", "examples[0].env: an example without an output"),
    (f"examples: [{{params: {{}}, {EXCHANGE}}}]", "examples[0].http: an example without an output"),
    ("tests: [{expect: 1}]", "the key 'params' is missing"),
    ("tests: [{params: {}}]", "tests[0]: the test does not say what must come of it"),
    (
        "tests: [{params: {}, expect: 1, expect_error: timeout}]",
        "tests[0].expect_error: expect and expect_error exclude each other",
    ),
    (
        "tests: [{params: {}, expect: 1, expect_part: 1, expect_error: timeout}]",
        "tests[0].expect_part: expect and expect_part exclude each other",
    ),
    (
        "tests: [{params: {}, expect_error: time_out}]",
        "tests[0].expect_error: unknown error type 'time_out'; did you mean 'timeout'?",
    ),
    (
        "tests: [{params: {}, expect_error: {error_type: validation_eror}}]",
        "tests[0].expect_error.error_type: unknown error type 'validation_eror'",
    ),
    ("tests: [{params: {}, expect_error: Bad Type}]", "write an error type"),
    ("tests: [{params: {}, expect_error: {message: x}}]", "the key 'error_type' is missing"),
    ("tests: [{params: {}, expect_error: [1]}]", "expected text or a mapping"),
    (
        "tests: [{params: {}, expect: 1, name: n}, {params: {}, expect: 1, name: n}]",
        "tests[1].name: tests[0] has the same name",
    ),
    ("tests: [{params: {}, expect: 1, env: {A: 1}}]", "tests[0].env.A: expected text"),
    ("tests: [{params: {}, expect: 1, http: []}]", "tests[0].http: must not be empty"),
    ("tests: [{params: {}, expect: 1, http: {}}]", "tests[0].http: expected a list"),
    ("tests: [{params: {}, expect: 1, http: [{}]}]", "the key 'request' is missing"),
    (
        exchange("{url: a.b}"),
        "tests[0].http[0].request.url: the text 'a.b' is not allowed; write the whole URL",
    ),
    (
        exchange("{url: 'http://a', json: 1, body: b}", "{json: 1, body: b}"),
        "tests[0].http[0].response.body: json and body both say the body",
    ),
    (
        exchange("{url: 'http://a'}", '{headers: {A: "b\\nc"}}'),
        "write the value on one line",
    ),
    (
        exchange("{url: 'http://a'}", "{status: 101}"),
        "at least 200, got the number 101",
    ),
]


@pytest.mark.parametrize("text", ACCEPTED)
def test_a_right_form_loads_as_it_is_written(text: str) -> None:
    """What a definition says under the two keys is what the tool carries, and is written out."""
    loader = ToolConfigLoader()
    tool = loader.load_text(HEAD + text)
    assert tool.examples or tool.tests
    again = loader.load_text(loader.export_to_yaml(tool))
    assert (again.examples, again.tests) == (tool.examples, tool.tests)
    assert again.definition_hash == tool.definition_hash


@pytest.mark.parametrize(("text", "message"), REFUSED)
def test_a_wrong_form_is_refused_with_its_place(text: str, message: str) -> None:
    """Each mistake is an error of the file, with the path and the cure."""
    with pytest.raises(DefinitionError) as caught:
        ToolConfigLoader().load_text(HEAD + text)
    assert message in str(caught.value)


@pytest.mark.parametrize("key", ["examples", "tests"])
@pytest.mark.parametrize(
    "value",
    [
        *("3", "text", "null", "[null]", "[[]]", "{a: 1}", "[{name: [1], params: {}}]"),
        *("[{params: {}, expect_error: null}]", "[{params: {}, expect_error: {error_type: 3}}]"),
        *("[{params: {}, http: [1]}]", "[{params: {}, http: [{request: 1, response: [2]}]}]"),
        *("[{params: {}, http: {a: 1}}]", "[{params: {}, env: [A]}]"),
    ],
)
def test_garbage_is_refused_and_nothing_else(key: str, value: str) -> None:
    """Whatever stands there, the loader answers with findings, never with a traceback."""
    with pytest.raises(DefinitionError) as caught:
        ToolConfigLoader().load_text(f"{HEAD}{key}: {value}")
    assert all(problem.line and problem.line >= 3 for problem in caught.value.problems)


@pytest.mark.parametrize("kind", ErrorType)
def test_a_misspelt_error_type_of_the_engine_is_refused(kind: ErrorType) -> None:
    """A slip of the pen is told from a tool's own error type by the list of the engine's."""
    test = "tests: [{params: {}, expect_error: %s}]"
    ToolConfigLoader().load_text(HEAD + test % kind.value)
    with pytest.raises(DefinitionError, match=f"did you mean '{kind.value}'"):
        ToolConfigLoader().load_text(HEAD + test % f"{kind.value}s")


def test_a_tool_without_them_has_none() -> None:
    """A definition that does not use the keys loads as before."""
    tool = ToolConfigLoader().load_text(HEAD)
    assert (tool.examples, tool.tests) == ([], [])
