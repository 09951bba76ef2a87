"""Is what the loader makes of a text right: what an independent reading finds, or errors?"""

from __future__ import annotations

from tests.properties.definition_reading import UnreadableError, differences, read_values
from tool_engine import DefinitionError, Tool, ToolConfigLoader
from tool_engine.catalog.kinds import ServerDefinition
from tool_engine.model.group import ToolGroup

__all__ = ["judge"]

_FILE = "tool.yaml"


def judge(text: str | bytes) -> tuple[Tool | ToolGroup, ...] | DefinitionError:
    """What the loader makes of `text`.

    Raises:
        AssertionError: It is wrong, or says too little about what is wrong with the text.
    """
    try:
        tools = ToolConfigLoader().load_definitions(text, _FILE)
    except DefinitionError as error:
        _check_error(error, text)
        return error
    try:
        values = read_values(text)
    except UnreadableError as error:
        raise AssertionError(f"it was read, although it means nothing: {error}") from error
    assert len(tools) == len(values), f"{len(tools)} tools of {len(values)} documents"
    for tool, value in zip(tools, values, strict=True):
        if isinstance(tool, ServerDefinition):
            said = {key: each for key, each in value.items() if key in tool.content}
            assert tool.content == said
        else:
            assert not (found := differences(tool, value)), found
    return tuple(each for each in tools if not isinstance(each, ServerDefinition))


def _check_error(error: DefinitionError, text: str | bytes) -> None:
    last = len((text if isinstance(text, bytes) else text.encode("utf-8", "replace")).splitlines())
    assert 1 <= len(error.problems) <= 100
    for problem in error.problems:
        assert problem.file == _FILE
        assert problem.message.endswith(problem.cure), problem
        assert len(str(problem)) < 3000, problem
        assert 1 <= (problem.line or 0) <= last + 1, problem
        assert (problem.column or 0) >= 1, problem
