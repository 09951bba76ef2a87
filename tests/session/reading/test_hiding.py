"""Does a model read nothing of what is kept unread, and can it still send it on?"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.approval.people import Person
from tests.session.catalogs import definition, engine_over, write
from tool_engine import Presentation, ToolEngine, ToolSession
from tool_engine.errors import ConfigurationError, ToolExecutionError
from tool_engine.model.content.pieces import ImageContent, TextContent
from tool_engine.protocols.result_content import parts_of, text_of
from tool_engine.session.config import ToolCallConfig
from tool_engine.session.reading.result import SessionResult

SECRET = "the fox was at the vineyard"
PIXEL = "iVBORw0KGgo="
IMAGE = {"content": [{"type": "image", "data": PIXEL, "mimeType": "image/png"}]}
VALUES: dict[str, tuple[Any, str]] = {
    "text": (SECRET, "a text of 27 characters"),
    "list": ([SECRET, SECRET], "a list of 2 entries, 62 characters in all"),
    "mapping": (
        {SECRET: 1, "b": [1, 2]},
        "a mapping of 2 entries, 47 characters in all",
    ),
    "number": (4711, "a single value"),
    "answer": (True, "a single value"),
}


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[ToolEngine]:
    which = {"name": "call_id", "type": "string", "description": "Which", "required": True}
    entry = {"entry": {"type": "builtin", "handler": "read_result"}}
    shown = {"result": {"show": "full"}}
    write(tmp_path, definition("read_result", parameters=[which], **entry, **shown))
    async with asyncio.timeout(20.0), engine_over(tmp_path) as engine:

        def give(kind: str) -> Any:
            if kind == "failure":
                raise ToolExecutionError(SECRET)
            return IMAGE if kind == "image" else VALUES[kind][0]

        kinds = {"name": "kind", "type": "string", "description": "Which", "required": True}
        for show in ("full", "summary", "none"):
            tool = {"name": f"give_{show}", "description": "Gives.", "parameters": [kinds]}
            engine.register_tool({**tool, "result": {"show": show}}, give)
        engine.register_tool({**tool, "name": "give"}, give)
        yield engine


async def give(session: ToolSession, kind: str = "text", tool: str = "give") -> SessionResult:
    return await session.execute(tool, {"kind": kind})


@pytest.mark.parametrize("kind", VALUES)
async def test_a_summary(engine: ToolEngine, kind: str) -> None:
    """N33: name, kind and size, nothing of the content; all of it is in the variable."""
    session = ToolSession(engine, "s")
    value, told = VALUES[kind]
    result = await give(session, kind, "give_summary")
    name = "give_summary_1_result"
    assert result.final_text == (
        f"The result is kept unread: {told}. To pass it on: $VAR_REF{{{{{name}}}}}"
    )
    assert result.is_hidden
    assert result.is_truncated
    assert session.variables.get(name).value == value
    assert result.output == (value if isinstance(value, dict) else {"result": value})
    assert session.read_labels.labels == set()


async def test_nothing_at_all(engine: ToolEngine) -> None:
    """N33: with `none` not even the size is told."""
    session = ToolSession(engine, "s")
    assert (await give(session, tool="give_none")).final_text == "Done. The result is not shown."
    assert session.variables.get("give_none_1_result").value == SECRET
    chinese = ToolSession(engine, "s", {"language": "zh"})
    assert (await give(chinese, tool="give_none")).final_text == "已完成。结果不显示。"
    assert "27 个字符的文本" in str((await give(chinese, tool="give_summary")).final_text)


@pytest.mark.parametrize("show", ["summary", "none"])
async def test_what_a_failed_call_says(engine: ToolEngine, show: str) -> None:
    """N33: a page that says 404 is a page; what the engine says of arguments is shown."""
    session = ToolSession(engine, "s")
    failed = await give(session, "failure", f"give_{show}")
    assert text_of(failed) == (
        "Error (execution_error): The call failed. What it said is not shown."
    )
    assert failed.error == SECRET
    wrong = await session.execute(f"give_{show}", {"kind": 7})
    assert "kind" in str(wrong.final_text)
    assert session.read_labels.labels == set()
    shown = await give(session, "failure", "give_full")
    assert SECRET in text_of(shown)
    assert session.read_labels.labels == {"tool:give_full effect:unknown"}


async def test_images(engine: ToolEngine) -> None:
    """N33: what is no text stays unread, too."""
    session = ToolSession(engine, "s")
    shown = parts_of(await give(session, "image", "give_full"))
    assert [type(part) for part in shown] == [ImageContent]
    unread = parts_of(await give(session, "image", "give_summary"))
    assert [type(part) for part in unread] == [TextContent]


@pytest.mark.parametrize("way", ["read_var", "read_result"])
async def test_it_can_be_read_later(engine: ToolEngine, way: str) -> None:
    """N33: what reads it is shown in any case, and then it was read."""
    session = ToolSession(engine, "s", {"show": "none"})
    kept = await give(session)
    params = {"name": kept.result_variable} if way == "read_var" else {"call_id": kept.call_id}
    read = await session.execute(way, params)
    assert SECRET in str(read.final_text)
    assert "tool:give effect:unknown" in session.read_labels.labels


@pytest.mark.parametrize(
    ("tool", "config", "is_shown"),
    [
        ("give", {}, True),
        ("give", {"show": "none"}, False),
        ("give", {"show": "none", "tool_show": {"give": "full"}}, True),
        ("give", {"tool_show": {"give": "summary"}}, False),
        ("give_full", {"show": "none"}, True),
        ("give_none", {"show": "full"}, False),
        ("give_none", {"tool_show": {"give_none": "full"}}, True),
        ("give_summary", {"tool_show": {"give_none": "full"}}, False),
    ],
)
async def test_which_word_holds(
    engine: ToolEngine, tool: str, config: dict[str, Any], is_shown: bool
) -> None:
    """N33: the session's of one tool, the definition's, the session's."""
    result = await give(ToolSession(engine, "s", config), tool=tool)
    assert (SECRET in str(result.final_text)) is is_shown
    assert result.is_hidden is not is_shown


async def test_without_a_variable(engine: ToolEngine) -> None:
    """N33: where code keeps nothing, the model learns the size, and nothing can be passed on."""
    kept = {"give_summary": Presentation(is_kept=False)}
    session = ToolSession(engine, "s", presentations=kept)
    result = await give(session, tool="give_summary")
    assert result.final_text == "The result is not shown: a text of 27 characters."


@pytest.mark.parametrize("is_elsewhere", [False, True])
async def test_who_is_asked_sees_all_of_it(engine: ToolEngine, is_elsewhere: bool) -> None:
    """S31, N33: somebody is asked about all that a model may read later, and it stays unread."""
    person = Person(None)
    config = {"tool_permissions": {"give_summary": {"result": "always"}}}
    session = ToolSession(engine, "s", config, person)
    held = await give(session, tool="give_summary")
    assert [each.result for each in person.asked] == [SECRET]
    if is_elsewhere:
        session = ToolSession.from_dict(session.to_dict(), engine, person)
    read = await session.resume(str(held.approval_token), True)
    assert "a text of 27 characters" in str(read.final_text)
    assert SECRET not in "".join(session.take_news())
    assert session.read_labels.labels == set()


@pytest.mark.parametrize("wrong", [{"show": "some"}, {"tool_show": {"give": "all"}}])
def test_other_words(wrong: dict[str, Any]) -> None:
    """N33: a word that is none is refused, and the message has those that are."""
    with pytest.raises(ConfigurationError, match="must be one of full, summary, none"):
        ToolCallConfig.from_dict(wrong)
