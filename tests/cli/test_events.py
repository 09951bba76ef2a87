"""`events` tells how the calls of other processes ended."""

import re
from pathlib import Path

import pytest

from tests.cli.conftest import Command
from tests.cli.recorded import lines_of, record_calls

ESCAPES = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]")


@pytest.fixture
def url(tmp_path: Path) -> str:
    return record_calls(tmp_path)


def test_events_are_the_final_ones(command: Command, url: str) -> None:
    """Each record is the final event of its call, named as in the engine."""
    done = command("--records", url, "events", "--json")
    kinds = [each["event_type"] for each in lines_of(done.out)]
    assert kinds.count("execution_completed") == 4
    assert kinds.count("execution_failed") == 2
    assert done.err == ""
    (event,) = lines_of(command("--records", url, "events", "--json", "--tool", "outer").out)
    assert event["data"]["caller_id"] == "agent-1"
    assert len(lines_of(command("--records", url, "events", "--failed", "--json").out)) == 2


def test_events_of_calls_with_bad_arguments(command: Command) -> None:
    """A call that was not valid is told of as such."""
    command("call", "echo")
    (event,) = lines_of(command("events", "--json").out)
    assert event["event_type"] == "validation_error"


def test_events_for_people_say_what_is_missing(command: Command, url: str) -> None:
    """One line an event; what is not told is said, on stderr; nothing steers the terminal."""
    done = command("--records", url, "events")
    assert len(done.out.splitlines()) == 6
    assert "only told inside the process of the engine" in done.err
    assert not ESCAPES.search(done.out)
