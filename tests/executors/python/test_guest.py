"""R9: the worker's side of the talk: what it answers, in which form, and how it ends.

The guest runs as a process of its own in all other tests; here its steps are looked at one by one.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import io
import json
import os
import resource
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from msgspec.json import Decoder

from tool_engine import ToolExecutionContext, ToolExecutionError
from tool_engine.errors import InvalidArgumentsError, UnboundContextError
from tool_engine.executors.python import guest
from tool_engine.executors.python.reporting import make_context
from tool_engine.executors.python.worker import Answer
from tool_engine.model.checks.unawaited import is_async

Pipe = tuple[int, int]


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    files = os.pipe()
    yield files
    for file in files:
        with contextlib.suppress(OSError):  # the test may have closed it
            os.close(file)


def answered(function: Callable[..., Any], context: Any = None, **params: Any) -> Any:
    request = {"id": 7, "params": params, "context": context, "seconds": 5.0}
    with asyncio.Runner() as runner:
        answer = json.loads(guest.answer_request(function, lambda: runner, request, None, -1))
    assert answer.pop("id") == 7
    return answer


def raising(error: BaseException) -> Callable[[], None]:
    def raise_it() -> None:
        raise error

    return raise_it


def test_values() -> None:
    """A value is answered as JSON, an awaitable is awaited first."""

    async def later(text: str) -> list[str]:
        await asyncio.sleep(0)
        return [text]

    assert answered(lambda text: {"a": (text, None)}, text="é") == {"value": {"a": ["é", None]}}
    assert answered(later, text="a") == {"value": ["a"]}


def test_a_plain_function_that_returns_an_awaitable() -> None:
    """It is refused, as where it runs in the engine's process: each place says the same."""

    fault = answered(lambda: asyncio.sleep(0))["error"]
    assert fault["message"] == (
        "the handler is a plain function that returns an awaitable; declare it with 'async def'"
    )
    assert fault["kind"] == "execution"


class Called:
    async def __call__(self) -> None: ...


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (Called(), True),
        (Called().__call__, True),
        (functools.partial(functools.partial(Called().__call__)), True),
        (functools.partial(Called()), True),
        (functools.wraps(Called.__call__)(lambda: 1), False),
        (len, False),
        (Called, False),
    ],
)
def test_what_is_async(function: Any, expected: bool) -> None:
    """A worker process, which imports nothing of the engine, sees it as the engine does."""
    assert guest._describe_signature(function)["is_async"] == is_async(function) == expected


class BrokenError(Exception):
    def __str__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (ValueError("odd"), "plain", "odd"),
        (BrokenError(), "plain", "its message cannot be shown (RuntimeError)"),
        (TimeoutError(), "timeout", ""),
        (MemoryError(), "memory", ""),
        (SystemExit(3), "exit", "3"),
        (KeyboardInterrupt(), "plain", ""),
        (ToolExecutionError("no"), "execution", "no"),
        # More than the engine searches for secrets, of which it shows the first 2,000.
        (ValueError("x" * 100_000), "plain", "x" * 65_536),
    ],
)
def test_errors(error: BaseException, kind: str, message: str) -> None:
    """An exception is answered by type, message and what it means to the engine."""
    fault = answered(raising(error))["error"]
    assert (fault["type"], fault["kind"]) == (type(error).__name__, kind)
    assert fault["message"] == message


class OddError(ToolExecutionError):
    """Has attributes that are code, and that fail."""

    @property
    def is_final(self) -> bool:
        raise RuntimeError

    @is_final.setter
    def is_final(self, value: bool) -> None: ...


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (FileNotFoundError(2, "gone", "a\udcff"), "[Errno 2] gone: 'a\\udcff'"),
        (ValueError("a\ud800b"), "a\\ud800b"),
        (ToolExecutionError("no", details={"name": "\udcff"}), "no"),
        (InvalidArgumentsError("no", findings=[{"x": object()}]), "invalid arguments: no"),
        (OddError("no"), "it cannot be described (RuntimeError)"),
    ],
    ids=["file", "message", "details", "findings", "attribute"],
)
def test_an_error_that_is_no_text(error: BaseException, message: str) -> None:
    """Whatever is raised is answered: its call would wait for its deadline, or lose its worker."""
    answer = guest.encode_fault(7, error)
    assert json.loads(answer)["error"]["message"] == message
    assert Decoder(Answer).decode(answer).error is not None


def test_an_error_of_a_handler_that_has_closed_its_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    """A traceback that cannot be printed is no reason to say nothing."""
    closed = io.StringIO()
    closed.close()
    monkeypatch.setattr(sys, "stderr", closed)
    assert answered(raising(ValueError("odd")))["error"]["message"] == "odd"


def test_details() -> None:
    """The details of our own error cross, where they are JSON."""
    fault = answered(raising(ToolExecutionError("no", details={"left": [1]})))["error"]
    assert fault["details"] == {"left": [1]}
    odd = answered(raising(ToolExecutionError("no", details={"x": object()})))["error"]
    assert "details" not in odd


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (object(), "the object that it returned has no form in JSON"),
        ([float("inf")], "the float that it returned at 'result[0]' has no form in JSON"),
        ("\ud800", "half of a surrogate pair is no text; return it without"),
        ({"a": [10**4300]}, "a number that it returned at 'a[0]' has too many digits for JSON"),
        ({1: 2, "1": 3}, "the dict that it returned has the key 1: return one with texts as keys"),
        ([{"a": ({None: 1},)}], "at 'result[0].a[0]' has the key None: return one with texts"),
        ({"a": [b"x"], "\ud800": 1}, "has the key '\\ud800': return one with texts"),
        ("x" * guest.MAX_MESSAGE, "the most is 16777216"),
    ],
    ids=["object", "inf", "surrogate", "number", "key", "deep key", "odd key", "huge"],
)
def test_what_cannot_leave(value: Any, message: str) -> None:
    """A result that JSON cannot say as it is, is an error: nothing is changed on the way."""
    fault = answered(lambda: value)["error"]
    assert fault["kind"] == "execution"
    assert message in fault["message"]


def test_bytes_leave_as_a_text_whatever_holds_them() -> None:
    """All values and places: tests/contracts/test_values_of_places.py."""
    assert answered(lambda: memoryview(b"a")) == {"value": {"result": "b'a'"}}


def test_context() -> None:
    """The context has what is JSON and its deadline; it takes no calls."""
    wire = ToolExecutionContext(caller_id="me").to_wire()

    async def use(context: ToolExecutionContext) -> Any:
        with pytest.raises(UnboundContextError, match="runs apart from the engine"):
            await context.call("other", {})
        assert context.deadline is not None
        return [context.caller_id, context.deadline > 0]

    assert answered(use, context=wire) == {"value": ["me", True]}
    assert make_context(wire, None, print).deadline is None


def test_signatures() -> None:
    """A function tells what it takes; what is none tells what it is."""
    described = guest._describe_signature(lambda a, b=1, *, context: None)
    assert described["parameters"] == [["a", 1, False], ["b", 1, True], ["context", 3, False]]
    assert described["is_callable"]
    assert guest._describe_signature(max)["parameters"] is None
    assert not guest._describe_signature(5)["is_callable"]
    assert not guest._describe_signature(dict)["is_callable"]
    assert guest._find_function("os", "path.join") is os.path.join


def test_messages(pipe: Pipe) -> None:
    """A message is its length and its JSON; the end of the pipe is the end of all."""
    reads, writes = pipe
    guest.write_message(writes, guest._encode_message({"a": "é"}))
    assert guest.read_message(reads) == {"a": "é"}
    large = guest._encode_message(["x" * 3_000_000])
    writer = threading.Thread(target=guest.write_message, args=(writes, large))
    writer.start()
    assert guest.read_message(reads) == ["x" * 3_000_000]
    writer.join()
    os.write(writes, b"\0\0")
    os.close(writes)
    assert guest.read_message(reads) is None


def test_limits_are_never_raised() -> None:
    """A limit that is already lower stays."""
    guest._set_limit(resource.RLIMIT_CORE, 0)
    assert resource.getrlimit(resource.RLIMIT_CORE) == (0, 0)
    guest._set_limit(resource.RLIMIT_CORE, 10**9)
    assert resource.getrlimit(resource.RLIMIT_CORE) == (0, 0)


def test_processor_time_is_counted_from_now() -> None:
    """The limit of a call is what was used before, and what the call may use."""
    before = resource.getrlimit(resource.RLIMIT_CPU)
    try:
        with asyncio.Runner() as runner:
            request = {"id": 1, "params": {}, "context": None, "seconds": None}
            guest.answer_request(lambda: None, lambda: runner, request, 1000.0, -1)
        used = resource.getrusage(resource.RUSAGE_SELF)
        limit, hard = resource.getrlimit(resource.RLIMIT_CPU)
        assert 1000 <= limit <= used.ru_utime + used.ru_stime + 1001
        assert hard == before[1]
    finally:
        resource.setrlimit(resource.RLIMIT_CPU, before)


def test_idle_end() -> None:
    """A guest that gets no requests ends by itself."""
    program = (
        "import os, sys\n"
        "from tool_engine.executors.python import guest\n"
        "guest.IDLE_SECONDS = 0.05\n"
        "reads, writes = os.pipe()\n"
        "settings = {'path': sys.path, 'memory': None, 'cpu': None, 'module': 'os', "
        "'name': 'getpid'}\n"
        "guest.write_message(writes, guest._encode_message(settings))\n"
        "sys.exit(guest._serve_calls(reads, os.open(os.devnull, os.O_WRONLY)))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], check=False, timeout=30)
    assert done.returncode == 0
