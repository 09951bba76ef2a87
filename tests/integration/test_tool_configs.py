"""Is every definition that the project ships a good example?"""

from __future__ import annotations

from pathlib import Path

import pytest

from tool_engine import ToolCategory, ToolConfigLoader, ToolEngine, ToolEngineConfig

TOOLS = Path(__file__).parents[2] / "tools"
FILES = sorted(TOOLS.glob("*.yaml"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_definition_loads(path: Path) -> None:
    """K4-K7: each file holds one tool of its own name, without a warning."""
    tool = ToolConfigLoader().load_file(path)
    assert tool.name == path.stem
    assert tool.findings == []
    assert tool.description
    assert isinstance(tool.category, ToolCategory)
    assert all(parameter.description for parameter in tool.parameters)


async def test_folder_loads_whole() -> None:
    """K3, K53: an engine loads the folder without errors, and models can be told of all of it."""
    config = ToolEngineConfig(tools_directory=str(TOOLS), auto_reload=False)
    async with ToolEngine(config) as engine:
        assert engine.load_errors == []
        assert engine.list_names() == [path.stem for path in FILES]
        assert engine.get_statistics()["warnings"] == []
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
