"""U47: what is said of one engine's tool is nothing to the tool of another one that is like it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.approval.people import Person
from tests.session.catalogs import definition, engine_over, group, write
from tests.session.refused_labels import list_refused_labels
from tool_engine import DeferredApprover, ToolEngine, ToolExecutionContext
from tool_engine.approval.describe import describe
from tool_engine.interfaces import Source
from tool_engine.model.approval import ApprovalRequest
from tool_engine.session.session import ToolSession
from tool_engine.sources.composition import combine, keep, prefix, rename

TEXT = "The quarterly figures are forty two thousand and eleven, as was expected by everyone."
SAID = {"text": "hi"}
DEFINITIONS = (
    definition("run", permission="ask_always"),
    definition("post", accepts=["tool:good"]),
    definition("show", permission={"result": "always"}),
)


@pytest.fixture
async def both(tmp_path: Path) -> AsyncIterator[tuple[ToolEngine, ToolEngine]]:
    for name in ("staging", "prod"):
        write(tmp_path / name, *DEFINITIONS)
    async with (
        engine_over(tmp_path / "staging") as staging,
        engine_over(tmp_path / "prod") as prod,
    ):
        for engine in (staging, prod):

            @engine.tool(effect="read")
            async def good() -> str:
                """Gives figures."""
                return TEXT

        yield staging, prod


@pytest.fixture
def tools(both: tuple[ToolEngine, ToolEngine]) -> Source:
    return combine(prefix(both[0], "staging_"), prefix(both[1], "prod_"))


async def test_the_name_that_was_called_is_asked_about(tools: Source) -> None:
    """X3: who is asked reads the name that the model called, and the engine's beside it."""
    person = Person(True)
    session = ToolSession(tools, "s", approver=person)
    for name in ("staging_run", "prod_run", "prod_show"):
        await session.execute(name, SAID)
    asked = [(each.called_name, each.tool_name, each.kind) for each in person.asked]
    assert asked == [
        ("staging_run", "run", "execution"),
        ("prod_run", "run", "execution"),
        ("prod_show", "show", "result"),
    ]
    assert describe(person.asked[1]).startswith("prod_run 1.0.0 (only reads)\n  run in its engine")


async def test_the_name_stays_with_a_deferred_request(tools: Source) -> None:
    """X3: also where the answer comes later, and in another process."""
    session = ToolSession(tools, "s", approver=DeferredApprover())
    await session.execute("prod_run", SAID)
    assert [each.called_name for each in session.gate.book.pending()] == ["prod_run"]
    (request,) = session.gate.book.pending()
    assert msgspec.json.decode(msgspec.json.encode(request), type=ApprovalRequest) == request


async def test_a_call_from_inside_tells_who_makes_it(tools: Source, both: Any) -> None:
    """X3: of a call that a tool makes, the tool that the model called."""
    for engine in both:

        async def deploy(text: str, context: ToolExecutionContext) -> Any:
            """Runs."""
            return (await context.call("run", {"text": text})).output

        engine.tool(effect="write")(deploy)
    person = Person(True)
    session = ToolSession(tools, "s", approver=person)
    assert (await session.execute("prod_deploy", SAID)).is_success
    assert [(each.called_name, each.tool_name) for each in person.asked] == [("prod_deploy", "run")]
    assert describe(person.asked[0]).startswith("run 1.0.0 (only reads)\n  called by prod_deploy")


@pytest.mark.parametrize(
    "settings",
    [
        {"tool_permissions": {"staging_run": "auto"}},
        {"rules": {"staging_run": "auto"}},
        {"group_permissions": {"staging_all": "auto"}},
    ],
)
async def test_a_permission_is_for_one_engine(
    both: tuple[ToolEngine, ToolEngine], tools: Source, tmp_path: Path, settings: Any
) -> None:
    """X3: to free one engine's tool leaves the very same definition in another one as it is."""
    write(tmp_path / "staging", definition("run"), group("all", tools=["run"]))
    write(tmp_path / "prod", definition("run"), group("all", tools=["run"]))
    for engine in both:
        await engine.reload()
    person = Person(False)
    settings = {**settings, "permission": "ask_always", "default_group_enabled": True}
    session = ToolSession(tools, "s", settings, approver=person)
    assert (await session.execute("staging_run", SAID)).is_success
    assert person.asked == []
    assert not (await session.execute("prod_run", SAID)).is_success
    assert len(person.asked) == 1


async def test_the_name_in_an_engine_frees_no_tool_of_another(
    both: tuple[ToolEngine, ToolEngine],
) -> None:
    """X3: `run` is the tool that is shown so; what another engine calls so, it may only forbid."""
    staging, prod = both
    tools = combine(rename(staging, {"run": "try"}), prefix(prod, "prod_"))
    person = Person(False)
    for settings in ({"run": "auto"}, {"ru?": "auto"}):
        session = ToolSession(combine(staging, prefix(prod, "prod_")), "s", {"rules": settings})
        assert (await session.execute("run", SAID)).is_success
        assert not (await session.execute("prod_run", SAID)).is_success
        session = ToolSession(tools, "s", {"rules": settings}, approver=person)
        assert not (await session.execute("prod_run", SAID)).is_success
    assert len(person.asked) == 2
    session = ToolSession(tools, "s", {"rules": {"run": "deny"}}, approver=person)
    for name in ("try", "prod_run"):
        assert not (await session.execute(name, SAID)).is_success
    assert len(person.asked) == 2
    hidden = combine(staging, prefix(keep(prod, ["good"]), "prod_"))
    session = ToolSession(hidden, "s", {"rules": {"*": "auto"}})
    assert session.policy.decide(prod.get_or_raise("run"), SAID).execution.value == "auto"


async def test_accepted_content_is_of_one_engine(tools: Source) -> None:
    """U47: what accepts `tool:good` takes it from the tool of its own engine only."""
    for came_from, other in (("staging", "prod"), ("prod", "staging")):
        session = ToolSession(tools, "s")
        assert (await session.execute(f"{came_from}_good")).is_success
        assert (await session.execute(f"{came_from}_post", {"text": TEXT})).is_success
        refused = await session.execute(f"{other}_post", {"text": TEXT})
        assert refused.error_type == "execution_rejected"
        which = "source-1" if came_from == "staging" else "source-2"
        assert f"tool:{which}:good" in str(refused.error)


def test_labels_of_several_sources() -> None:
    """U47: a plain word is about the own source, and a whole one about the one that it names."""
    first, second = {"tool:good effect:read"}, {"tool:source-2:good effect:read"}
    assert list_refused_labels(first, ["tool:good"]) == []
    assert list_refused_labels(first, ["tool:good"], "source 2") == [
        "tool:source-1:good effect:read"
    ]
    assert list_refused_labels(second, ["tool:go*"]) == sorted(second)
    assert list_refused_labels(second, ["tool:good"], "source 2") == []
    assert list_refused_labels(second, ["tool:good"], "source 3") == sorted(second)
    for accepts in (["tool:source-2:good"], ["tool:*"], ["effect:read"]):
        for source in ("", "source 2", "source 3"):
            assert list_refused_labels(second, accepts, source) == []
    assert list_refused_labels(first, ["tool:source-1:good"], "source 2") == []
    assert list_refused_labels(first, ["tool:source-1:good"]) == []
