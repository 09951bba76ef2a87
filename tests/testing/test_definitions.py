"""Are the examples and tests of definitions run through the engine, and told as they end?"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tool_engine import Tool, ToolEngine, ToolEngineConfig, ToolExecutionError, ToolNotFoundError
from tool_engine.catalog.loader import ToolConfigLoader
from tool_engine.model.call import ValidationError, ValidationResult
from tool_engine.model.parameter import ToolParameter
from tool_engine.model.tool import ToolCategory
from tool_engine.testing.definitions import check_definitions
from tool_engine.testing.report import CaseReport, CaseStatus, ToolReport
from tool_engine.validation.validator import ToolParameterValidator

HTTP = """
name: weather
description: Weather.
category: http
effect: read
parameters:
  - {name: city, type: string, required: true, description: City}
entry:
  type: http
  request:
    url: https://w.example/v1
    query: {city: "{city}"}
    headers: {Authorization: "Bearer ${env:WEATHER_TOKEN}"}
  response: "{t: t}"
output: {type: object, properties: {t: number}}
"""
CASE = """
tests:
  - params: {city: Oslo}
    env: {WEATHER_TOKEN: abcdef}
    http:
      - request: REQUEST
        response: RESPONSE
    EXPECTED
"""
RIGHT = (
    "{url: 'https://w.example/v1', query: {city: Oslo}, headers: {authorization: Bearer abcdef}}"
)

Checked = Callable[[str], Awaitable[ToolReport]]


def http_case(
    request: str = RIGHT, response: str = "{json: {t: 3}}", expected: str = "expect: {t: 3}"
) -> str:
    """The weather tool with one test."""
    case = CASE.replace("REQUEST", request).replace("RESPONSE", response)
    return HTTP + case.replace("EXPECTED", expected)


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[ToolEngine]:
    """An engine on an empty folder, loaded."""
    config = ToolEngineConfig(tools_directory=str(tmp_path), auto_reload=False)
    async with ToolEngine(config) as engine:
        yield engine


async def check(engine: ToolEngine, text: str, **options: Any) -> ToolReport:
    """The report about the one tool that `text` defines."""
    engine.register_tool(ToolConfigLoader().load_text(text, "t.yaml"))
    async with asyncio.timeout(10):
        (report,) = await check_definitions(engine, **options)
    return report


def only(report: ToolReport) -> CaseReport:
    """The report of its one case."""
    (case,) = report.cases
    return case


async def test_a_recorded_request_is_answered_offline(
    engine: ToolEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An HTTP tool runs in its own executor, over https, without a socket or a name being asked."""

    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("the network was touched")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    report = await check(engine, http_case())
    assert only(report) == CaseReport(("tests", 0))
    assert not report.has_failed


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"expected": "expect: {t: 4}"}, ["output.t: expected 4, got 3"]),
        ({"expected": "expect: {}"}, ["output.t: not expected, got 3"]),
        ({"expected": "expect_part: {}"}, []),
        ({"expected": "expect_part: {t: 4}"}, ["output.t: expected 4, got 3"]),
        (
            {"expected": "expect_error: execution_error"},
            ['expected the error execution_error, got the output {"t": 3}'],
        ),
        (
            {"expected": "expect_error: validation"},
            [
                (
                    'expected the error validation, got the output {"t": 3}; the engine has no '
                    "error 'validation': write expect in place of it, if that is right"
                )
            ],
        ),
        (
            {"request": RIGHT.replace("Oslo", "Bergen")},
            ['http[0].request.query.city: expected "Bergen", got "Oslo"'],
        ),
        (
            {"request": RIGHT.replace("abcdef", "secret")},
            ["http[0].request.headers.authorization: expected 'Bearer secret'"],
        ),
        (
            {"response": "{json: {t: cold}}", "expected": "expect: {t: cold}"},
            ["got the error execution_error: the tool has run, but its output is not what"],
        ),
    ],
)
async def test_differences_fail(
    engine: ToolEngine, changes: dict[str, str], told: list[str]
) -> None:
    """What came is held against what was written, and against the declared output."""
    case = only(await check(engine, http_case(**changes)))
    assert len(case.problems) == len(told)
    assert all(found.startswith(text) for found, text in zip(case.problems, told, strict=True))
    assert case.status is (CaseStatus.FAILED if told else CaseStatus.PASSED)


async def test_errors_are_expected_by_type_and_message(engine: ToolEngine) -> None:
    """`expect_error` is a type, or a type and a part of the message."""
    text = http_case(response="{status: 500, body: down}", expected="expect: {}")
    head, _, _ = text.partition("    expect:")
    assert "got the error execution_error: w.example answered 500" in str(
        only(await check(engine, text)).problems
    )
    for expected, problem in (
        ("execution_error", ""),
        ("{error_type: execution_error, message: down}", ""),
        ("timeout", "expected the error timeout, got execution_error: w.example answered 500"),
        (
            "{error_type: execution_error, message: up}",
            "expected an error with 'up' in its message, got execution_error: w.example",
        ),
    ):
        tool = ToolConfigLoader().load_text(f"{head}    expect_error: {expected}", "t.yaml")
        found = only(await _again(tool))
        assert (found.status is CaseStatus.PASSED) == (problem == "")
        assert problem in "".join(found.problems)


async def _again(tool: Tool) -> ToolReport:
    engine = ToolEngine(ToolEngineConfig(auto_reload=False))
    try:
        engine.register_tool(tool)
        (report,) = await check_definitions(engine, cases=0)
        return report
    finally:
        await engine.close()


async def test_an_unrecorded_request_fails(engine: ToolEngine) -> None:
    """Nothing is sent, and the message is the cure; how the call ended is not told on top."""
    text = HTTP + "tests: [{params: {city: Oslo}, env: {WEATHER_TOKEN: abcdef}, expect: {t: 3}}]"
    case = only(await check(engine, text))
    (problem,) = case.problems
    assert "the tool sent GET https://w.example/v1?city=Oslo, which is not recorded" in problem
    assert case.status is CaseStatus.FAILED


async def test_a_request_that_is_not_sent_fails(engine: ToolEngine) -> None:
    """A call that ends as expected but never sends its request is no success."""
    text = http_case(expected="expect_error: validation_error").replace("{city: Oslo}", "{}", 1)
    assert "did not send GET https://w.example/v1" in only(await check(engine, text)).problems[0]


async def test_the_real_environment_is_neither_used_nor_changed(
    engine: ToolEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A test sees the variables that it gives and no others of the tool's, and leaves no trace."""
    monkeypatch.setenv("WEATHER_TOKEN", "the real token")
    text = http_case().replace("tests:\n", "tests:\n  - {params: {city: a}, expect: {t: 1}}\n")
    report = await check(engine, text)
    missing, given = report.cases
    assert given.status is CaseStatus.PASSED
    assert "WEATHER_TOKEN is not set" in missing.problems[0]
    assert missing.problems[1] == (
        'the real environment is not used here; give it env: {WEATHER_TOKEN: "…"}'
    )
    assert os.environ["WEATHER_TOKEN"] == "the real token"
    monkeypatch.delenv("WEATHER_TOKEN")
    assert not (await check_definitions(engine, cases=0))[0].cases[1].problems
    assert "WEATHER_TOKEN" not in os.environ


async def test_a_call_is_tried_again_without_the_pause(engine: ToolEngine) -> None:
    """`retry` is part of what is tested; waiting an hour between attempts is not."""
    request = "{url: 'https://w.example/v1?city=Oslo'}"
    two = f"{request}\n        response: {{status: 503}}\n      - request: {request}"
    text = http_case(request=two) + "retry: {attempts: 2, backoff: 3600}\nrate: 1/d\n"
    text += "concurrency: {key: tool, key_limit: 1}\n"
    again = "  - params: {city: Oslo}\n    expect_error: execution_error\n"
    report = await check(engine, text.replace("retry:", f"{again}retry:"))
    assert [case.status for case in report.cases] == [CaseStatus.PASSED, CaseStatus.PASSED]


async def test_an_address_is_still_checked(engine: ToolEngine) -> None:
    """The rules about private addresses hold in a test as they do in production."""
    text = http_case(expected="expect_error: {error_type: execution_error, message: loopback}")
    text = text.replace("https://w.example", "http://127.0.0.1").partition("    http:")[0]
    text += "    expect_error: {error_type: execution_error, message: not a public address}\n"
    assert only(await check(engine, text)).problems == []


async def test_examples_have_to_be_right_calls(engine: ToolEngine) -> None:
    """An example without an output is not run, but its arguments are checked, and strictly."""
    text = HTTP + "examples: [{params: {city: Oslo}}, {params: {town: Oslo}}]"
    good, bad = (await check(engine, text)).cases
    assert good == CaseReport(("examples", 0))
    assert bad.status is CaseStatus.FAILED
    assert "missing required parameter 'city'" in bad.problems[0]
    assert "unknown parameter 'town'" in bad.problems[1]


async def test_examples_with_an_output_are_run(engine: ToolEngine) -> None:
    """What an example shows is true."""
    text = (
        "name: echo\ndescription: Echo.\nentry: {type: builtin, handler: echo}\n"
        "parameters: [{name: message, type: string, required: true, description: M}]\n"
        "examples: [{params: {message: a}, output: {message: a}, description: says a},"
        " {params: {message: a}, output: {message: b}}]\n"
    )
    good, bad = (await check(engine, text)).cases
    assert good == CaseReport(("examples", 0), "says a")
    assert bad.problems == ['output.message: expected "b", got "a"']


async def test_a_tool_without_executor_is_skipped(engine: ToolEngine) -> None:
    """It is told with the cure, never passed; a test that expects just that is run."""
    text = (
        "name: mine\ndescription: Mine.\nentry: {type: custom, handler: my_handler}\n"
        "tests: [{params: {}, expect: 1}, {params: {}, expect_error: executor_not_found}]\n"
    )
    report = await check(engine, text)
    skipped, run = report.cases
    assert skipped.status is CaseStatus.SKIPPED
    assert "'my_handler'" in skipped.problems[0]
    assert "--app" in skipped.problems[0]
    assert run.status is CaseStatus.PASSED
    assert report.has_gaps
    assert not report.has_failed


@pytest.mark.parametrize(
    ("value", "expected", "output", "told"),
    [
        (3, 3, {"type": "integer"}, []),
        (3, {"result": 3}, {"type": "integer"}, []),
        ([1], [1], {"type": "array", "items": "integer"}, []),
        (["a"], ["a"], {"type": "array", "items": "integer"}, ["'output[0]' must be an integer"]),
        (None, None, None, []),
        ({"result": 1}, {"result": 1}, {"type": "object", "properties": {"result": "text"}}, None),
        (True, 1, None, ["output.result: expected 1, got true"]),
        ({"when": 1.5}, {"when": 1.5}, None, []),
    ],
)
async def test_any_output_can_be_expected(
    engine: ToolEngine, value: Any, expected: Any, output: Any, told: list[str] | None
) -> None:
    """What is no mapping may be written as it is, or as the engine hands it over."""
    if told is None:
        output["properties"]["result"] = "string"
        told = ["'output.result' must be a string"]
    keys = {} if output is None else {"output": output}

    @engine.tool(tests=[{"params": {}, "expect": expected}], **keys)
    async def give() -> Any:
        """Gives a value."""
        return value

    (report,) = await check_definitions(engine)
    problems = only(report).problems
    assert len(problems) == len(told)
    assert all(part in problem for part, problem in zip(told, problems, strict=True))
    assert only(report).place is None


async def test_handlers_run_in_this_process(engine: ToolEngine) -> None:
    """A tool in code runs with its own handler, whose errors can be expected too."""
    ran = []

    @engine.tool(
        tests=[
            {"params": {"n": 1}, "expect": 2},
            {
                "params": {"n": 0},
                "expect_error": {"error_type": "execution_error", "message": "no"},
            },
            {"params": {"n": 2}, "expect_error": "out_of_stock"},
        ]
    )
    def double(n: int) -> int:
        """Doubles a number."""
        ran.append(n)
        if n == 0:
            raise ValueError("not zero")
        if n == 2:
            raise OutOfStockError("no more")
        return 2 * n

    (report,) = await check_definitions(engine, cases=50)
    assert [case.problems for case in report.cases] == [[], [], []]
    # The fifty generated arguments were validated and nothing else.
    assert ran == [1, 0, 2]
    assert report.accepted == 50


class OutOfStockError(ToolExecutionError):
    error_type = "out_of_stock"


async def test_broken_parameters_are_told(engine: ToolEngine) -> None:
    """A tool made in code whose rules cannot be compiled fails; the others are run."""
    parameter = ToolParameter("p", "string", validation={"pattern": "("})
    engine.register_tool(
        Tool("a", "a", "1", "A", ToolCategory.CUSTOM, [], [parameter], {"type": "custom"})
    )
    engine.register_tool(
        {"name": "b", "description": "B", "entry": {"type": "builtin", "handler": "echo"}}
    )
    first, second = await check_definitions(engine)
    assert only(first).status is CaseStatus.FAILED
    assert "parameters[0]" in only(first).problems[0]
    assert second.accepted


async def test_names_choose_the_tools(engine: ToolEngine) -> None:
    """Some tools, each once and by name; a name that nobody has is an error."""
    for name in ("b", "a", "c"):
        engine.register_tool({"name": name, "description": "D"})
    reports = await check_definitions(engine, ["c", "a", "c"])
    assert [report.tool for report in reports] == ["a", "c"]
    assert [report.tool for report in await check_definitions(engine)] == ["a", "b", "c"]
    with pytest.raises(ToolNotFoundError):
        await check_definitions(engine, ["d"])


async def test_failures_have_their_line(tmp_path: Path) -> None:
    """A failure names the file and the line on which the case is written."""
    text = "name: a\ndescription: A.\nentry: {type: builtin, handler: echo}\n"
    tests = "tests:\n  - {params: {}, expect: {}}\n  - params: {}\n    expect: 1\n"
    file = tmp_path / "a.yaml"
    file.write_text(text + tests, encoding="utf-8")
    config = ToolEngineConfig(tools_directory=str(tmp_path), auto_reload=False)
    async with ToolEngine(config) as engine:
        (report,) = await check_definitions(engine)
        assert [case.place for case in report.cases] == [None, f"{file}:6"]
        file.write_text("x: [", encoding="utf-8")
        (report,) = await check_definitions(engine)
        assert [case.place for case in report.cases] == [None, str(file)]
        file.unlink()
        (report,) = await check_definitions(engine)
        assert [case.place for case in report.cases] == [None, str(file)]


async def test_a_rule_that_is_not_kept_has_the_line_of_its_parameter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the generated arguments find is told where the parameter is declared."""
    file = tmp_path / "tools.yaml"
    text = (
        "name: {}\ndescription: A.\nparameters:\n  - {{name: n, type: integer, description: N}}\n"
    )
    file.write_text(text.format("b") + "---\n" + text.format("a"), encoding="utf-8")

    def refuse(self: Any, tool: Tool, params: Any) -> ValidationResult:
        return ValidationResult(is_valid=False, errors=[finding] if params else [])

    finding = ValidationError("n", "type_mismatch", "wrong")
    monkeypatch.setattr(ToolParameterValidator, "validate", refuse)
    config = ToolEngineConfig(tools_directory=str(tmp_path), auto_reload=False)
    async with ToolEngine(config) as engine:
        assert engine.load_errors == []
        first, second = await check_definitions(engine, cases=1)
    assert first.cases[0].place == f"{file}:9"
    assert second.cases[0].place == f"{file}:4"
    assert second.cases[-1].place == f"{file}:4"
