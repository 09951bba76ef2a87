"""`history show` tells the whole story of one call."""

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Command
from tests.cli.recorded import lines_of, record_calls
from tests.knowledge.calls import entry_of
from tool_engine.knowledge.sql.storage import SQLRecordStorage
from tool_engine.knowledge.store import ToolKnowledgeStore
from tool_engine.model.call import ToolExecutionResult

ESCAPES = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]")


@pytest.fixture
def url(tmp_path: Path) -> str:
    return record_calls(tmp_path)


def call_of(command: Command, url: str, tool: str, position: int = 0) -> dict[str, Any]:
    found = lines_of(command("--records", url, "history", "--json", "--tool", tool).out)
    return found[position]


def test_show_has_the_facts_of_a_call(command: Command, url: str) -> None:
    """Who asked, when, how it ended, with what; secrets hidden, long results shortened."""
    call = call_of(command, url, "outer")
    done = command("--records", url, "history", "show", call["call_id"])
    assert done.code == 0
    for words in ("outer", "succeeded", "agent-1 (conversation_agent)", "chat-1", "waited", "ran"):
        assert words in done.out
    assert '"numbers": 2' in done.out
    assert "--full prints them" in done.out
    assert "x" * 3_000 not in done.out
    assert (
        "x" * 3_000 in command("--records", url, "history", "show", call["call_id"], "--full").out
    )


def test_show_has_the_calls_around_it_as_a_tree(command: Command, url: str) -> None:
    """The call that made it and those that it made, whichever of them is asked for."""
    outer, inner = call_of(command, url, "outer"), call_of(command, url, "inner")
    for call in (outer, inner):
        done = command("--records", url, "history", "show", call["call_id"])
        tree = done.out.partition("calls\n")[2].splitlines()
        assert [line.split()[0] for line in tree] == ["outer", "├─", "└─"]
        assert outer["call_id"] in tree[0]
        assert "inner  succeeded" in tree[1]
    told = command("--records", url, "history", "show", inner["call_id"], "--json").json
    assert told["call_id"] == inner["call_id"]
    assert told["params"] == {"number": 0, "token": "[hidden]"}
    assert told["tree"]["call_id"] == outer["call_id"]
    assert [each["tool_name"] for each in told["tree"]["calls"]] == ["inner", "inner"]
    assert told["is_tree_whole"] is True


def test_show_takes_the_beginning_of_an_id(command: Command, url: str) -> None:
    """A prefix suffices where it is that of one call; else the message lists several."""
    call = call_of(command, url, "broken")
    ids = [each["call_id"] for each in lines_of(command("--records", url, "history", "--json").out)]
    prefix = call["call_id"]
    while sum(each.startswith(prefix[:-1]) for each in ids) == 1:
        prefix = prefix[:-1]
    assert (
        command("--records", url, "history", "show", prefix, "--json").json
        == command("--records", url, "history", "show", call["call_id"], "--json").json
    )
    several = command("--records", url, "history", "show", "call-")
    assert several.code == 2
    assert "beginning of several ids" in several.err


@pytest.mark.parametrize("name", ["no-such-call", "", "%", "call_", "CALL-", "'; --"])
def test_show_of_an_unknown_call(command: Command, url: str, name: str) -> None:
    """What begins no id is told of, and is no pattern."""
    done = command("--records", url, "history", "show", name)
    assert done.code == 2
    assert "is recorded" in done.err


def test_a_failed_call_has_no_size_of_a_result(command: Command, url: str) -> None:
    """The size of an empty text would be that of nothing."""
    for tool, is_there in (("outer", True), ("broken", False)):
        call = call_of(command, url, tool)
        done = command("--records", url, "history", "show", call["call_id"])
        assert ("result size" in done.out) is is_there


def test_show_is_harmless(command: Command, url: str) -> None:
    """Nothing that was recorded steers the terminal."""
    call = call_of(command, url, "broken")
    for words in ([], ["--json"], ["--full"]):
        done = command("--records", url, "history", "show", call["call_id"], *words)
        assert done.code == 0
        assert not ESCAPES.search(done.out)
        assert "cannot" in done.out


def test_show_bounds_a_huge_tree(
    command: Command, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of very many calls a part is shown, and said to be one."""
    monkeypatch.setattr("tool_engine.cli.records.story._MOST_CALLS", 2)
    call = call_of(command, url, "outer")
    done = command("--records", url, "history", "show", call["call_id"])
    assert "only 2 calls are shown" in done.out
    told = command("--records", url, "history", "show", call["call_id"], "--json").json
    assert told["is_tree_whole"] is False


def test_show_of_a_call_whose_maker_has_no_record(command: Command, tmp_path: Path) -> None:
    """A call whose maker was killed, or is still running, is shown all the same."""
    url = f"sqlite:///{tmp_path}/calls.db"

    async def keep() -> None:
        store = ToolKnowledgeStore(SQLRecordStorage(url))
        result = ToolExecutionResult(True, "inner")
        store.append(entry_of(result, call_id="call-1", parent_call_id="call-0"))
        store.append(entry_of(result, call_id="call-1.1", parent_call_id="call-1"))
        store.append(entry_of(result, call_id=None, parent_call_id="call-1"))
        await store.close()

    asyncio.run(keep())
    done = command("--records", url, "history", "show", "call-1")
    assert done.code == 0
    assert "made by" in done.out
    assert "call-0" in done.out
    assert len(done.out.partition("calls\n")[2].splitlines()) == 3
