"""Is every definition that the project ships a good example?"""

from __future__ import annotations

from pathlib import Path

import pytest

from tool_engine import ToolCategory, ToolConfigLoader, ToolEngine, ToolEngineConfig
from tool_engine.cli.demo.stage import copy_definitions
from tool_engine.cli.settings import Settings
from tool_engine.model.group import ToolGroup
from tool_engine.testing.definitions import check_definitions
from tool_engine.testing.report import CaseStatus

TOOLS = Path(__file__).parents[2] / "tools"
RETRIED = "timeout: 10\nidempotent: true\nretry: {attempts: 2}\n"
GROUPS = [TOOLS / "files.yaml", TOOLS / "web.yaml"]
FILES = [path for path in sorted(TOOLS.glob("*.yaml")) if path not in GROUPS]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_definition_loads(path: Path) -> None:
    """K4-K7: each file holds one tool of its own name, without a warning."""
    tool = ToolConfigLoader().load_file(path)
    assert tool.name == path.stem
    assert tool.findings == []
    assert tool.description
    assert isinstance(tool.category, ToolCategory)
    assert all(parameter.description for parameter in tool.parameters)


@pytest.mark.parametrize("path", GROUPS, ids=lambda path: path.stem)
def test_group_loads(path: Path) -> None:
    """S10: each of these files holds one group of its own name, without a warning."""
    (group,) = ToolConfigLoader().load_file_definitions(path)
    assert isinstance(group, ToolGroup)
    assert (group.name, group.findings) == (path.stem, ())
    assert group.rules
    assert group.skills


async def test_folder_loads_whole() -> None:
    """K3, K53: an engine loads the folder without errors, and models can be told of all of it."""
    config = ToolEngineConfig(tools_directory=str(TOOLS), auto_reload=False)
    async with ToolEngine(config) as engine:
        assert engine.load_errors == []
        assert engine.list_names() == [path.stem for path in FILES]
        assert engine.get_statistics()["warnings"] == []
        assert (list(engine.groups), engine.group_warnings()) == (["files", "web"], [])
        assert all(group.members(engine.list_all()) for group in engine.groups.values())
        for format_name in ("openai", "anthropic", "gemini", "mcp"):
            assert engine.tool_definitions(format_name)


def test_documented_example() -> None:
    """K14: the seed's http_request example, with its rules."""
    tool = ToolConfigLoader().load_file(TOOLS / "http_request.yaml")
    about = {parameter.name: parameter for parameter in tool.parameters}
    assert tool.category is ToolCategory.HTTP
    assert tool.handler == "http_request"
    assert tool.tags == ["network", "api", "request"]
    assert list(about) == ["url", "method", "headers", "body", "timeout"]
    assert [p.name for p in tool.parameters if p.required] == ["url"]
    assert (about["method"].default, about["timeout"].default) == ("GET", 30)
    properties = tool.parameters_schema["properties"]
    assert properties["url"]["pattern"] == "^https?://"
    assert properties["method"]["enum"] == ["GET", "POST", "PUT", "DELETE", "PATCH"]
    assert (properties["timeout"]["minimum"], properties["timeout"]["maximum"]) == (1, 300)
    assert tool.output is not None
    assert set(tool.output["properties"]) == {"status_code", "headers", "body"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_export_loads_again(path: Path, tmp_path: Path) -> None:
    """U20: what is exported is the same tool when it is loaded."""
    loader = ToolConfigLoader()
    tool = loader.load_file(path)
    copy = tmp_path / path.name
    copy.write_text(loader.export_to_yaml(tool), encoding="utf-8")
    assert loader.load_file(copy).definition_hash == tool.definition_hash


@pytest.fixture(params=["tools", "demo"])
def folder(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of tools, and what the demo runs on where there is none."""
    if request.param == "tools":
        return TOOLS
    monkeypatch.chdir(tmp_path)
    copy_definitions(Settings(), tmp_path)
    return tmp_path


async def test_examples_and_tests_pass(folder: Path) -> None:
    """Each file carries examples and tests; they pass offline, and each schema keeps its rules."""
    config = ToolEngineConfig(tools_directory=str(folder), auto_reload=False)
    async with ToolEngine(config) as engine:
        assert engine.load_errors == []
        for tool in engine.list_all():
            assert tool.examples, tool.name
            assert tool.tests, tool.name
        reports = await check_definitions(engine, cases=50)
    assert [report.tool for report in reports] == engine.list_names()
    problems = {
        f"{report.tool} {case.path}": case.problems
        for report in reports
        for case in report.cases
        if case.status is not CaseStatus.PASSED
    }
    assert problems == {}
    assert {report.tool: report.notes for report in reports if report.notes} == {}
    assert all(report.accepted == 50 and report.refused for report in reports)


@pytest.mark.parametrize(
    ("name", "old", "new", "told"),
    [
        ("calculator", "result: 20.0", "result: 21.0", "output.result: expected 21.0, got 20.0"),
        ("echo", "handler: echo", "handler: calculator", "execution_error"),
        ("disk_usage", '-k, --, "', '-k, "', "begins with '-'"),
        ("get_weather", 'city: "{city}"', 'town: "{city}"', "query.town: not expected"),
        ("get_weather", "temperature: temperature,", "temperature: humidity,", "got 0.9"),
        ("notify_team", "timeout: 10\n", RETRIED, "the tool sent POST https://chat.example.com"),
        ("notify_team", "method: POST\n    url", "method: PUT\n    url", "expected POST, got PUT"),
        ("search_repositories", "Bearer ${env", "token ${env", "headers.Authorization"),
        ("encyclopedia_summary", "{attempts: 3", "{attempts: 1", "did not send GET"),
        ("http_request", 'pattern: "^https?://"', 'pattern: "^[a-z]+://"', "expected the error"),
    ],
)
async def test_a_changed_tool_fails_its_tests(
    name: str, old: str, new: str, told: str, tmp_path: Path
) -> None:
    """The tests of the bundled files notice it when the tool is changed under them."""
    text = (TOOLS / f"{name}.yaml").read_text(encoding="utf-8")
    assert text.count(old) == 1
    (tmp_path / f"{name}.yaml").write_text(text.replace(old, new), encoding="utf-8")
    config = ToolEngineConfig(tools_directory=str(tmp_path), auto_reload=False)
    async with ToolEngine(config) as engine:
        assert engine.load_errors == []
        (report,) = await check_definitions(engine, cases=0)
    assert told in "\n".join(problem for case in report.cases for problem in case.problems)
