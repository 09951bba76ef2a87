"""An object of others stands in as a source with what it has, and with defaults for the rest."""

from __future__ import annotations

import gc
from typing import Any

import pytest

from tests.session.catalogs import Catalog, definition
from tool_engine import ToolEngine, ToolEngineConfig, ToolSubAgent
from tool_engine.catalog.loader import ToolConfigLoader
from tool_engine.errors import ConfigurationError, ToolNotFoundError
from tool_engine.model.call import Refusal, ToolExecutionContext, ToolExecutionResult
from tool_engine.model.group import ToolGroup
from tool_engine.session import Toolbox, combine
from tool_engine.sources.foreign import as_source, check_source
from tool_engine.sources.identity import engine_text

ONE = ToolConfigLoader().from_mapping(definition("one"))
NO = Refusal("rejected", "no")


class Rich(Catalog):
    """One that has all that is used of an object of others."""

    def __init__(self, engine: ToolEngine) -> None:
        super().__init__(ONE)
        self.generation = 7
        self.groups = {"g": ToolGroup(name="g", tools=("one",))}
        self.findings = ["something"]
        self.store, self.controller, self.index = engine.store, engine.controller, engine.index
        self.config = engine.config

    def get_or_raise(self, tool_name: str) -> Any:
        raise ToolNotFoundError(f"only this one says so of {tool_name}")

    def refuse(self, tool_name: str, *more: Any) -> ToolExecutionResult:
        return ToolExecutionResult(False, tool_name, error="refused by itself")


def test_what_it_has_is_used() -> None:
    """All that it has of a source counts, as it is at the moment of the question."""
    engine = ToolEngine(ToolEngineConfig(tools_directory="none", name="shop"))
    found = Rich(engine)
    source = as_source(found)
    assert (source.generation, source.groups, source.findings) == (7, found.groups, ["something"])
    assert (source.store, source.controller) == (engine.store, engine.controller)
    assert source.index is engine.index
    assert source.refuse("one", {}, None, NO).error == "refused by itself"
    assert source.describe_origin() == engine.describe_origin() == ["name", "shop"]
    with pytest.raises(ToolNotFoundError, match="only this one says so of one"):
        source.get_or_raise("one")
    assert source.find_groups(ONE) == found.groups
    found.generation = 8
    assert source.generation == 8


def test_what_it_lacks_has_a_default() -> None:
    """Names that mean something else elsewhere are not taken for those of a source."""
    found = Catalog(ONE)
    found.controller = "the one at the gate"  # type: ignore[attr-defined]
    found.index = [1, 2]  # type: ignore[attr-defined]
    found.groups = None  # type: ignore[attr-defined]
    source = as_source(found)
    assert (source.generation, source.store, source.controller, source.index) == (None,) * 4
    assert (source.groups, source.findings) == ({}, ())
    assert source.describe_origin() == ["Catalog"]
    assert source.refuse("one", {}, None, NO).error == "no"
    with pytest.raises(ToolNotFoundError, match="no tool named 'onne'; did you mean 'one'"):
        source.get_or_raise("onne")
    assert Toolbox(found).findings == []


@pytest.mark.parametrize("found", [None, {}, object(), "engine"])
def test_what_is_no_source(found: Any) -> None:
    with pytest.raises(ConfigurationError, match="must have get, list_all and execute"):
        check_source(found)


def test_two_tools_of_one_name() -> None:
    """Neither of them is shown, whether the object refuses calls itself or not."""
    twin = ToolConfigLoader().from_mapping(definition("one", description="Another one"))
    found = Catalog(ONE)
    found.list_all = lambda: [ONE, twin, ONE]  # type: ignore[method-assign]
    found.refuse = None  # type: ignore[attr-defined]
    toolbox = Toolbox(found)
    assert toolbox.all() == []
    assert toolbox.findings == ["a source has two tools named 'one': rename one in it"]
    found.list_all = lambda: [ONE, ONE]  # type: ignore[method-assign]
    assert as_source(found).list_unambiguous()[1] is None


async def test_one_that_makes_the_contexts() -> None:
    """It is given the time that its call may take, and nothing else."""
    times: list[Any] = []

    class Agent:
        def get(self, name: str) -> Any:
            return ONE

        async def execute(self, name: str, params: Any, timeout: float = 30) -> ToolExecutionResult:  # noqa: ASYNC109 - as a sub-agent's
            times.append(timeout)
            return ToolExecutionResult(True, name)

    source = as_source(Agent())
    assert source.makes_contexts
    await source.execute("one", {}, ToolExecutionContext(timeout=2.5))
    await source.execute("one", {}, None)
    assert times == [2.5, ToolExecutionContext().timeout]
    engine = ToolEngine(ToolEngineConfig(tools_directory="none"))
    assert as_source(ToolSubAgent("helper", engine)).makes_contexts


def test_it_is_the_same_after_all_have_forgotten_it() -> None:
    """Two that look alike stay apart in one process, though their adapters come and go."""
    one, other = Catalog(ONE), Catalog()
    marks = []
    for _ in range(2):
        tools = combine(one, other)
        marks.append([engine_text(tools, each) for each in tools.list_origins()])
        del tools
        gc.collect()
    assert marks[0] == marks[1]
    assert len(set(marks[0])) == 2
