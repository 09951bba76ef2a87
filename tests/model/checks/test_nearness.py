"""One way to find the known name that was meant, for the whole house."""

import string
from random import Random

import pytest

from tool_engine.model.checks.nearness import find_near, find_nearest, suggest_near


@pytest.mark.parametrize(
    ("word", "known", "meant"),
    [
        ("FIFO", ["fair", "fifo"], "fifo"),
        ("get-weather", ["get_wealth", "get_weather"], "get_weather"),
        ("maxRetries", ["max_rate", "max_retries"], "max_retries"),
        ("retries", ["returns", "retry", "required"], "retry"),
        ("retry", ["retries", "entry"], "retries"),
        ("sql", ["echo", "sql_query"], "sql_query"),
        ("desc", ["description", "name"], "description"),
        ("htpp", ["http", "ai"], "http"),
        ("\uff28\uff34\uff34\uff30", ["http"], "http"),
        ("名称", ["名前", "名称"], "名称"),
        ("--", ["-", "--"], "--"),
        ("ab", ["abc_of_everything"], ""),
        ("", ["a", "b"], ""),
        ("zzz", ["tags"], ""),
        ("x" * 100_000, ["http", "ai"], ""),
        (5, ["http"], ""),
    ],
)
def test_the_name_that_was_meant(word: object, known: list[str], meant: str) -> None:
    """U4: case and the marks between words do not count; a shared beginning counts more."""
    assert find_nearest(word, known) == meant
    assert suggest_near(word, known) == (f"; did you mean {meant!r}?" if meant else "")


def test_several_names() -> None:
    """The best stands first, and there are never more than were asked for."""
    known = ["read_files", "read_file", "write_file", "calculator"]
    assert find_near("readfile", known) == ["read_file", "read_files", "write_file"]
    assert find_near("readfile", known, 1) == ["read_file"]
    assert suggest_near("READ_FILES", known, 2) == "; did you mean 'read_files' or 'read_file'?"


def test_a_whole_name_is_found_among_any_number() -> None:
    """Names that differ only in case are found behind thousands of others."""
    random = Random(1)  # noqa: S311 - no secret
    names = ["".join(random.choices(string.ascii_lowercase, k=12)) for _ in range(10_000)]
    assert find_nearest(names[-1].upper(), names) == names[-1]


def test_a_near_name_is_found_wherever_it_stands() -> None:
    """What is said of a slip among thousands of names does not depend on their order."""
    parts = [f"{first}{last}" for first in "bcdfghjklmnp" for last in ("at", "end", "ist", "ore")]
    names = [f"{one}_{two}" for one in parts for two in parts]
    random = Random(1)  # noqa: S311 - no secret
    for _ in range(40):
        name = random.choice(names)
        cut = random.randrange(1, len(name))
        random.shuffle(names)
        # Some dozen are as near.
        assert name in find_near(name[:cut] + name[cut + 1 :], names, 50)
    many = [f"tool_{number:05}" for number in range(20_000)]
    assert find_nearest("tol_19999", many) == find_nearest("tol_19999", many[::-1]) == "tool_19999"


def test_a_slip_of_the_pen_is_less_than_a_beginning() -> None:
    """Where much likeness is asked for, a beginning alone does not do."""
    assert find_near("timeout_error", ["timeout"], 1) == ["timeout"]
    assert find_near("timeout_error", ["timeout"], 1, like_enough=0.85) == []
    assert find_near("time_out", ["timeout"], 1, like_enough=0.85) == ["timeout"]
