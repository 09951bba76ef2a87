"""Is every exception put into words that a model may read?"""

from __future__ import annotations

import asyncio
import json
import re

import pytest

from tool_engine.calls.failure import Failure, failure_of, refusal_of
from tool_engine.errors import QueueFullError, ToolExecutionError
from tool_engine.redaction import OwnSecrets


class BrokenError(Exception):
    def __str__(self) -> str:
        raise KeyError("no words")


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        (ValueError("bad"), ("execution_error", "ValueError: bad")),
        (ValueError(), ("execution_error", "ValueError")),
        (ToolExecutionError("plain"), ("execution_error", "plain")),
        (TimeoutError("slow"), ("timeout", "slow")),
        (TimeoutError(), ("timeout", "the tool gave up waiting (TimeoutError)")),
        (
            SystemExit(1),
            ("execution_error", "the tool tried to end the process (SystemExit)"),
        ),
        (
            asyncio.CancelledError(),
            (
                "execution_error",
                "the tool cancelled itself or lost something it waited for (CancelledError)",
            ),
        ),
        (
            BrokenError(),
            ("execution_error", "BrokenError: its message cannot be shown (KeyError)"),
        ),
        (OSError("key sk-" + "a" * 20), ("execution_error", "OSError: key [hidden]")),
    ],
    ids=lambda value: type(value).__name__,
)
def test_failure_of(error: BaseException, failure: tuple[str, str]) -> None:
    """K27: the type and the words of each kind of exception, secrets hidden."""
    assert failure_of(error) == Failure(*failure)


def test_the_place_in_the_authors_code() -> None:
    """Who wrote the tool is told the line of his file, and not one of Python or of a package."""
    with pytest.raises(json.JSONDecodeError) as caught:
        json.loads("{")
    failure = failure_of(caught.value)
    assert failure.details is not None
    assert re.fullmatch(r"calls/test_failure\.py:\d+", failure.details["raised_at"])
    assert "test_failure" not in failure.error
    secret = OwnSecrets({"key": "test_failure"}, ["key"], ["key"])
    assert "test_failure" not in str(failure_of(caught.value, secret))


def test_details() -> None:
    """K27: details of a tool's own error are kept, secrets hidden; none are none."""
    error = ToolExecutionError("no", details={"status": 404, "token": "x"})
    assert failure_of(error).details == {"status": 404, "token": "[hidden]"}
    assert failure_of(ToolExecutionError("no")).details is None


def test_long_message() -> None:
    """A message of megabytes does not reach the model whole; what is missing is counted."""
    failure = failure_of(ToolExecutionError("x" * 5_000))
    assert failure.error == "x" * 2_000 + "… (3000 characters more)"
    assert failure_of(ToolExecutionError("x" * 2_000)).error == "x" * 2_000


def test_refusal() -> None:
    """C6: a refusal says when to try again, if that is known."""
    assert refusal_of(QueueFullError("full")) == Failure("queue_full", "full")
    refused = refusal_of(QueueFullError("full", retry_after=1.23456))
    assert refused.details == {"retry_after": 1.235}


def test_long_details_keep_their_beginning() -> None:
    """As results in records do, without secrets around the cut; short ones are whole."""
    secret = "s3cr3t-of-the-call"
    secrets = OwnSecrets({"token": secret}, ("token",))
    long: dict[str, object] = {"rows": [{"said": secret}] * 50_000, "token": secret}
    details = failure_of(ToolExecutionError("no", details=long), secrets).details
    assert details is not None
    assert details["_truncated"]["size"] > 1_000_000
    assert 100 < len(details["rows"]) < 50_000
    text = failure_of(ToolExecutionError("no", details={"text": secret * 50_000}), secrets).details
    for each in (details, text):
        assert "s3cr3t" not in str(each)
        assert len(str(each)) < 200_000
    short: dict[str, object] = {"code": 7, "at": [1]}
    assert failure_of(ToolExecutionError("no", details=short)).details == short
