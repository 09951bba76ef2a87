"""`prune` removes old records."""

from pathlib import Path

import pytest

from tests.cli.conftest import Command
from tests.cli.recorded import lines_of, record_calls


@pytest.fixture
def url(tmp_path: Path) -> str:
    return record_calls(tmp_path)


def test_prune_keeps_the_newest(command: Command, url: str) -> None:
    """`--keep N` leaves the newest N; the answer is how many went."""
    done = command("--records", url, "prune", "--keep", "2", "--json")
    assert done.json == {"removed": 4}
    left = lines_of(command("--records", url, "history", "--json").out)
    assert len(left) == 2
    assert left[-1]["tool_name"] == "inner"
    assert command("--records", url, "prune", "--keep", "2").out == "removed 0 records\n"


def test_prune_by_age(command: Command, url: str) -> None:
    """Only what is older goes."""
    assert command("--records", url, "prune", "--older-than", "1h").out == "removed 0 records\n"
    assert (
        command("--records", url, "prune", "--older-than", "0.001s", "--json").json["removed"] == 6
    )


def test_prune_by_size(command: Command, url: str) -> None:
    """A bound that the file keeps removes nothing."""
    assert command("--records", url, "prune", "--max-size", "1GB", "--json").json["removed"] == 0


@pytest.mark.parametrize(
    "words",
    [(), ("--keep", "0"), ("--keep", "-1"), ("--older-than", "soon"), ("--max-size", "0MB")],
)
def test_prune_needs_a_bound(command: Command, url: str, words: tuple[str, ...]) -> None:
    """Without a bound that makes sense nothing is removed."""
    assert command("--records", url, "prune", *words).code == 2
    assert len(lines_of(command("--records", url, "history", "--json").out)) == 6


def test_prune_of_nothing(command: Command) -> None:
    """Where nothing is recorded, nothing is removed."""
    assert command("prune", "--keep", "1").out == "removed 0 records\n"
