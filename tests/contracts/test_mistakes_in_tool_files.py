"""What people get wrong in a tool file has place, cause and a cure that works.

A row is the text as it is got wrong, what its message says in this order, and the text as the
message asks for it. Each is put into a file that is right without it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tool_engine.cli.app import run

NAMES = "name: said\ndescription: Says it.\neffect: read\n"
MESSAGE = "parameters:\n  - {name: q, type: string, required: true, description: What}\n"
ECHO = "entry: {type: builtin, handler: echo}\n"
RIGHT = NAMES + MESSAGE + ECHO


def http(url: str, more: str = "") -> str:
    return f"{NAMES}{MESSAGE}entry:\n  type: http\n  request: {{url: {url}{more}}}\n"


def command(*words: str) -> str:
    listed = ", ".join(f'"{each}"' for each in words)
    return f"{NAMES}{MESSAGE}entry: {{type: builtin, handler: run_command, argv: [{listed}]}}\n"


def query(sql: str) -> str:
    entry = f"{{type: builtin, handler: sql_query, source: main, sql: {sql}}}"
    return f"{NAMES}{MESSAGE}entry: {entry}\n"


def steps(more: str) -> str:
    listed = f"[{{id: a, tool: calculator, {more}}}]"
    return f"{NAMES}{MESSAGE}entry: {{type: workflow, steps: {listed}}}\n"


SITE = "https://api.example.com"
CALL = f"{NAMES}entry:\n  type: http\n  request: {{url: '{SITE}'}}\n"
QUERY = query('"SELECT :q"')
Row = tuple[str, list[str], str]
MISTAKES: list[Row] = [
    # YAML
    (
        RIGHT.replace("What}", "The city, such as Oslo, or Rome}"),
        ["unknown key 'such as Oslo'", 'description: "The city, such as Oslo, or Rome"'],
        RIGHT.replace("What}", '"The city, such as Oslo, or Rome"}'),
    ),
    (
        RIGHT.replace("What}", "The city, Oslo}"),
        ["unknown key 'Oslo'", 'description: "The city, Oslo"'],
        RIGHT.replace("What}", '"The city, Oslo"}'),
    ),
    (
        RIGHT.replace("{type: builtin, handler: echo}", "{handler: os.path:basename}"),
        ["the key 'type' is missing", "add it: type: python"],
        RIGHT.replace("{type: builtin, handler: echo}",
                      "{type: python, handler: os.path:basename}").replace("name: q", "name: p"),
    ),
    (
        steps("arguments: {expression: '${params.q}'}"),
        ["entry.steps[0].arguments: unknown key 'arguments'", "did you mean 'params'"],
        steps("params: {expression: '${params.q}'}"),
    ),
    (
        steps("params: {expression: '{q} + 1'}"),
        ["entry.steps: never uses the parameter 'q'", "write ${params.q} in place of {q}"],
        steps("params: {expression: '${params.q} + 1'}"),
    ),
    (
        steps("params: {expression: '${params.q}'}").replace("{id: a", "{name: a"),
        ["entry.steps[0].name: unknown key 'name'", "did you mean 'id'"],
        steps("params: {expression: '${params.q}'}"),
    ),
    (
        query('"SELECT :q"').replace("sql:", "query:"),
        ["entry.query: unknown key 'query'", "did you mean 'sql'"],
        query('"SELECT :q"'),
    ),
    (
        RIGHT.replace("{name: q, type: string, required: true, description: What}",
                      "name: q\n  type: string"),
        [":6:3: not valid YAML", "begin the line with a dash, or indent it as the key after the"],
        RIGHT.replace("{name: q, type: string, required: true, description: What}",
                      "name: q\n    type: string\n    description: What"),
    ),
    *[
        (RIGHT.replace("Says it.", form),
         [":2:", ": not valid YAML", f"quote the whole text: {quoted}"],
         RIGHT.replace("Says it.", quoted))
        for form, quoted in (
            ("*Says* it.", '"*Says* it."'), ("Says: it", '"Says: it"'), ("@it", '"@it"'),
            ("`it` is", '"`it` is"'), ("%it", '"%it"'), ("- it", '"- it"'), ("? it", '"? it"'),
            ("[it] is", '"[it] is"'), ("{it} is", '"{it} is"'), ("'It's'", '"It\'s"'),
            ('"It" is', r'"\"It\" is"'),
        )
    ],
    *[
        (RIGHT.replace("Says it.", f"{sign}it is"),
         [":2:14: description: ", f"or quote a text that begins with {sign}"],
         RIGHT.replace("Says it.", f"'{sign}it is'"))
        for sign in "&!"
    ],
    (
        RIGHT.replace("Says it.", "#it"),
        [":2:13: description: ", 'quote a text that begins with #: "#it"'],
        RIGHT.replace("Says it.", '"#it"'),
    ),
    (
        RIGHT.replace("Says it.", "> Says it.\n  It is."),
        [":2:16: not valid YAML", "begin the text on the next line, or quote it"],
        RIGHT.replace("Says it.", ">\n  Says it.\n  It is."),
    ),
    (
        RIGHT.replace("Says it.", "\n  - Says it.\n  - It is."),
        [":3:3: description: expected text, got a list", "lines of a list below a |"],
        RIGHT.replace("Says it.", "|\n  - Says it.\n  - It is."),
    ),
    (
        RIGHT.replace("Says it.", "Says it\n  # Here it goes on.\n  and more."),
        [":4:3: not valid YAML", "a comment ends a text that goes on below it: move line 3 away"],
        RIGHT.replace("Says it.", "Says it\n  and more."),
    ),
    (
        RIGHT.replace("Says it.", "|\n\tSays it."),
        [":3:1: not valid YAML", "indent with spaces"],
        RIGHT.replace("Says it.", "|\n  Says it."),
    ),
    (
        RIGHT.replace("{name: q, type: string, required: true, description: What}",
                      "name: q\n    type: integer\n    description: What\n    min: - 1"),
        [":8:10: not valid YAML", "write a number without a blank behind its sign"],
        RIGHT.replace("{name: q, type: string, required: true, description: What}",
                      "name: q\n    type: integer\n    description: What\n    min: -1"),
    ),
    (
        RIGHT.replace("effect: ", "effect:\u00a0"),
        [":3:8: not valid YAML: a blank that YAML does not know", "write a plain blank"],
        RIGHT,
    ),
    (
        RIGHT.replace("Says it.", "|\nSays it."),
        [":4:1: not valid YAML", "indent the text of a block"],
        RIGHT.replace("Says it.", "|\n  Says it."),
    ),
    (
        f"<<<<<<< HEAD\n{RIGHT}=======\n{RIGHT}>>>>>>> other\n",
        [":1:1: not valid YAML: the mark of a merge that is not finished", "keep one side of it"],
        RIGHT,
    ),
    (
        RIGHT.replace("name: q", "name: \u201cq\u201d"),
        [":5:12: ", "curly quotation marks are a part of the text", "write straight ones"],
        RIGHT.replace("name: q", 'name: "q"'),
    ),
    (
        RIGHT.replace("Says it.", "\u2018Says it.\u2019"),
        [":2:14: ", "curly quotation marks", "or quote the text with its marks"],
        RIGHT.replace("Says it.", "'\u2018Says it.\u2019'"),
    ),
    # The form of a definition
    (
        "- " + RIGHT.replace("\n", "\n  ") + "\n- " + RIGHT.replace("\n", "\n  "),
        [":1:1: ", "got a list", "write each definition as a document, with a line --- between"],
        f"{RIGHT}---\n{RIGHT.replace('said', 'other')}",
    ),
    (
        "tools:\n  - " + RIGHT.replace("\n", "\n    "),
        [":1:1: ", "tools is a key of groups", "write each definition as a document"],
        RIGHT,
    ),
    (
        "kind: group\nname: texts\ntools:\n  - {name: said, description: Says it.}\n",
        [":4:5: ", "expected text, got a mapping", "write its name here"],
        f"kind: group\nname: texts\ntools:\n  - said\n---\n{RIGHT}",
    ),
    (
        RIGHT.replace("true", '"true"'),
        [":5:39: ", "expected true or false, got the text 'true'", "write true without quotes"],
        RIGHT,
    ),
    (
        f"{RIGHT}examples: {{params: {{q: hi}}}}\n",
        [":7:11: examples: expected a list, got a mapping", "write a dash before it"],
        f"{RIGHT}examples:\n  - {{params: {{q: hi}}}}\n",
    ),
    (
        f"{RIGHT}examples: [{{params: hi}}]\n",
        [":7:21: examples[0].params: expected a mapping", "write a mapping: {NAME: VALUE}"],
        f"{RIGHT}examples: [{{params: {{q: hi}}}}]\n",
    ),
    (
        f"{RIGHT}concurrency: 5\n",
        [":7:14: concurrency: expected a mapping", "write a mapping: {key_limit: 5}"],
        f"{RIGHT}concurrency: {{key_limit: 5}}\n",
    ),
    (
        NAMES + MESSAGE + "entry: echo\n",
        [":6:8: entry: expected a mapping", "write a mapping, of type"],
        RIGHT,
    ),
    (
        f"{RIGHT}concurrency: texts\n",
        [":7:14: concurrency: expected a mapping", "write a mapping, of bucket"],
        f"{RIGHT}concurrency: {{bucket: texts}}\n",
    ),
    (
        f"{RIGHT}retry: 3\n",
        [":7:8: retry: expected a mapping, got the number 3", "write a mapping: {attempts: 3}"],
        f"{RIGHT}retry: {{attempts: 3}}\n",
    ),
    *[
        (right.replace(f"{{type: {kind}, ", "{"),
         [": entry: the key 'type' is missing", f"add it: type: {kind}"], right)
        for kind, right in (
            ("builtin", RIGHT), ("builtin", command("ls", "--", "{q}")), ("builtin", QUERY),
            ("builtin", NAMES + MESSAGE + "entry: {type: builtin, argv: [ls, '--', '{q}']}\n"),
            ("http", f"{NAMES}entry: {{type: http, request: {{url: '{SITE}'}}}}\n"),
            ("python", f"{NAMES}entry: {{type: python, handler: 'os:getpid'}}\n"),
        )
    ],
    # Words of other formats
    *[
        (f"{RIGHT}{word}: 2\n",
         [f":7:1: {word}: ", "write it in concurrency, as in `concurrency: {key_limit: ...}`"],
         f"{RIGHT}concurrency: {{key_limit: 2}}\n")
        for word in ("max_concurrent", "max_concurrency", "max_parallel", "parallel")
    ],
    (
        f"{RIGHT}retry: {{attempts: 2, delay: 1}}\n",
        [":7:22: retry.delay: ", "did you mean 'backoff'"],
        f"{RIGHT}retry: {{attempts: 2, backoff: 1}}\n",
    ),
    (
        f"{CALL}  pagination: {{next: link}}\n",
        [":7:3: entry.pagination: ", "write it in response: {pages: {next: ...}}"],
        f"{CALL}  response: {{pages: {{next: link}}}}\n",
    ),
    (
        QUERY.replace("source: main", "source: 'sqlite:///shop.db'"),
        ["entry.source: is the address of a database", "write source: shop here"],
        QUERY.replace("source: main", "source: shop"),
    ),
    (
        f"{RIGHT}required: [q]\n",
        [":7:1: required: ", "write required: true into each parameter that a call must have"],
        RIGHT,
    ),
    (
        RIGHT.replace("required: true", "optional: true"),
        [":5:29: parameters[0].optional: ", "leave it out: a parameter is needed only where"],
        RIGHT.replace("required: true, ", ""),
    ),
    (
        f"{NAMES}properties: {{q: {{type: string}}}}\n{ECHO}",
        [":4:1: properties: ", "did you mean 'parameters'"],
        f"{NAMES}parameters: {{type: object, properties: {{q: {{type: string}}}}}}\n{ECHO}",
    ),
    (
        f"function:\n  name: said\n{RIGHT}",
        [":1:1: function: ", "write what it holds at the top of the definition"],
        RIGHT,
    ),
    *[
        (RIGHT.replace("type: string", f"type: {word}"),
         [":5:21: parameters[0].type: ", f"did you mean '{meant}'"],
         RIGHT.replace("type: string", f"type: {meant}"))
        for word, meant in (("date", "string"), ("float", "number"), ("list", "array"),
                            ("Dict", "object"))
    ],
    (
        http(f'"{SITE}/x"', ', params: {q: "{q}"}'),
        ["entry.request.params: ", "did you mean 'query'"],
        http(f'"{SITE}/x"', ', query: {q: "{q}"}'),
    ),
    (
        http(f'"{SITE}/x"', ', method: POST, data: {q: "{q}"}'),
        ["entry.request.data: ", "did you mean 'json'"],
        http(f'"{SITE}/x"', ', method: POST, json: {q: "{q}"}'),
    ),
    # Places for parameters, as other programs write them
    *[
        (http(f'"{SITE}/x"', f', query: {{q: "{form}"}}'),
         ["never uses the parameter 'q'", f"send it in place of {form} as {{q}}"],
         http(f'"{SITE}/x"', ', query: {q: "{q}"}'))
        for form in ("{{q}}", "{{ q }}", "$q", "$(q)", "<q>", "%(q)s", "%q%", "@q", "{ q }")
    ],
    (
        http(f'"{SITE}/{{{{ q }}}}"'),
        ["in place of {{ q }} as {q}", "has a brace", "write a parameter as {name}"],
        http(f'"{SITE}/{{q}}"'),
    ),
    (
        http(f'"{SITE}/"', ", query: {q: {{ q }}}"),
        ["a key must be text", "in quotes where it begins with a brace or a bracket"],
        http(f'"{SITE}/"', ', query: {q: "{q}"}'),
    ),
    (command("ls", "{{ q }}"), ["pass it in place of {{ q }} as {q}"], command("ls", "--", "{q}")),
    *[
        (query(f'"SELECT {form}"'),
         ["never uses the parameter 'q'", f"use it as :q in place of {form}, or"],
         QUERY)
        for form in ("':q'", "'$q'", "%s", "?", "@q")
    ],
    # Addresses
    (
        http("api.example.com/x", ", query: {q: '{q}'}"),
        ["must begin with http:// or https://", f"write {SITE}/x"],
        http(f"{SITE}/x", ", query: {q: '{q}'}"),
    ),
    (
        http("htps://api.example.com/x", ", query: {q: '{q}'}"),
        ["must begin with http:// or https://", f"write {SITE}/x"],
        http(f"{SITE}/x", ", query: {q: '{q}'}"),
    ),
    (
        http("/x", ", query: {q: '{q}'}"),
        ["must begin with http:// or https://", "write the whole address, its host too"],
        http(f"{SITE}/x", ", query: {q: '{q}'}"),
    ),
]  # fmt: skip


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tools").mkdir()
    return tmp_path / "tools"


@pytest.mark.parametrize(("wrong", "parts", "right"), MISTAKES)
def test_a_mistake_and_its_cure(
    tools: Path, capsys: pytest.CaptureFixture[str], wrong: str, parts: list[str], right: str
) -> None:
    (tools / "said.yaml").write_text(wrong, encoding="utf-8")
    assert run(["validate"]) == 1
    said = capsys.readouterr().out
    at = said.index("tools/said.yaml:")
    for part in parts:
        assert part in said[at:], said
        at += said[at:].index(part)
    (tools / "said.yaml").write_text(right, encoding="utf-8")
    assert run(["validate"]) == 0, capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "cure", "right"),
    [
        ("said.yaml.txt", "'said.yaml.txt' is not read: rename it to 'said.yaml'", "said.yaml"),
        ("said.YML.txt", "rename it to 'said.yaml'", "said.yaml"),
        ("said.json", "rename it to 'said.yaml'", "said.yaml"),
        ("more/said.yaml", "there are some in tools/more: write `tool-engine --recursive", ""),
        ("notes.md", "write one with `tool-engine new NAME`", "said.yaml"),
    ],
)
def test_a_file_that_is_not_read(
    tools: Path, capsys: pytest.CaptureFixture[str], name: str, cure: str, right: str
) -> None:
    """Each command says why there is nothing, and `call` says it in place of the tool."""
    file = tools / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(RIGHT)
    for words in (["validate"], ["list"], ["lint"], ["test"], ["call", "said", "q=hi"]):
        assert run(words) == (2 if words[0] == "call" else 0)
        err = capsys.readouterr().err
        assert "there is no tool file in tools; " in err
        assert cure in err, words
    if right:
        file.rename(tools / right)
    assert run(["call", "said", "q=hi"] if right else ["-r", "call", "said", "q=hi"]) == 0


def test_a_file_that_is_not_read_beside_others(
    tools: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tools / "other.yaml").write_text(RIGHT.replace("said", "other"))
    (tools / "said.yaml.txt").write_text(RIGHT)
    assert run(["call", "said", "q=hi"]) == 2
    assert "rename it to 'said.yaml'" in capsys.readouterr().err
    assert run(["list"]) == 0
    assert not capsys.readouterr().err


def test_a_place_in_what_cannot_be_read(tools: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is no second mistake: with the first one mended, it is used."""
    wrong = http('"https://me:word@api.example.com/{q}"')
    (tools / "said.yaml").write_text(wrong)
    assert run(["validate"]) == 1
    said = capsys.readouterr().out
    assert "without user name" in said
    assert "never uses" not in said
    (tools / "said.yaml").write_text(wrong.replace("me:word@", ""))
    assert run(["validate"]) == 0
