"""What runs in a worker process of isolated handlers?

This file is run as a script of its own, and imports nothing of the engine. Two processes come of
it. The *guest* imports the handler's module, then answers one request after the other. Its parent,
the *guardian*, runs no foreign code: it waits for the end of the guest or of the engine, then ends
all that the guest has started, sessions of its own included, before it ends itself as the guest
did.

A message is its length in four bytes, then JSON. Nothing else is ever read from the guest: its
messages can be wrong, but cannot run code in the engine.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib
import importlib.util
import inspect
import json
import math
import os
import resource
import select
import signal
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final, NoReturn

MAX_MESSAGE: Final = 16 * 1024 * 1024
"""The most bytes of one message."""
IDLE_SECONDS: Final = 300.0
"""A worker without a request for so long ends itself; another one starts when needed."""

_MANY: Final = 10_000
"""Lists and mappings of a result, from which on it may hold some of them again and again."""
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 1, 36, 38


def main() -> NoReturn:
    """Start the guest, and become its guardian."""
    requests, answers = (int(word) for word in sys.argv[1:3])
    for file in (requests, answers):
        os.set_inheritable(file, False)
    guardian = _load_beside("guardian")
    # Threads of some programs, those of Ray among them, have signals held back in what they start.
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    in_front = guardian.step_back((requests, answers)) if sys.argv[3:] else None
    _call_prctl(_PR_SET_CHILD_SUBREAPER, 1)
    # A process of another user, by `sudo` for one, could not be killed.
    _call_prctl(_PR_SET_NO_NEW_PRIVS, 1)
    own = os.getpid()
    guest = os.fork()
    if guest:
        os.close(answers)
        guardian.guard_guest(guest, requests, in_front)
    os.setsid()
    _call_prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    code = 1
    if os.getppid() == own:
        with contextlib.suppress(BrokenPipeError, KeyboardInterrupt):
            code = _serve_calls(requests, answers)
    # Without the interpreter's clean-up, which could wait for threads of the handler.
    os._exit(code)


def _serve_calls(requests: int, answers: int) -> int:
    settings = read_message(requests)
    if settings is None:
        return 0
    _load_beside("described_fault")  # while files can be opened
    sys.path[:] = settings["path"]
    sys.argv = [""]
    _set_limit(resource.RLIMIT_CORE, 0)
    if settings["memory"]:
        _set_limit(resource.RLIMIT_AS, settings["memory"])
    try:
        function = _find_function(settings["module"], settings["name"], settings["approved"])
        described = _describe_signature(function)
        hints = _load_beside("hints")
        if hints.asks_types(function, settings["parameters"]):
            adapting = importlib.import_module(hints.ADAPTING)
            function = adapting.typed_handler(function, settings["parameters"])
    except BaseException as error:  # noqa: BLE001 - a module may raise anything
        write_message(answers, _encode_described(0, error))
        return 0
    write_message(answers, _encode_message({"id": 0, "value": described}))
    if settings["is_shared"]:
        many: Any = _load_beside("many_calls")
        serve = many.serve_together if described["is_async"] else many.serve_in_turn
        serve(sys.modules[__name__], function, requests, answers)
        return 0
    with contextlib.ExitStack() as stack:
        # Half of the time of a start, which a handler that is not async must not pay for.
        open_runner = functools.cache(
            lambda: stack.enter_context(importlib.import_module("asyncio").Runner())
        )
        while select.select([requests], [], [], IDLE_SECONDS)[0]:
            request = read_message(requests)
            if request is None:
                break
            answer = answer_request(function, open_runner, request, settings["cpu"], answers)
            write_message(answers, answer)
    return 0


def _find_function(module: str, name: str, approved: str | None = None) -> Any:
    found = _load_beside("importing").import_source(module, approved)
    return functools.reduce(getattr, name.split("."), found)


@functools.cache
def _load_beside(name: str, room: str = "executors/python") -> Any:
    """Load a file of the engine by its path: a worker process has not imported that."""
    own = f"{__file__.rpartition('/executors/')[0]}/{room}/{name}.py"
    spec = importlib.util.spec_from_file_location(f"_tool_engine_{name}", own)
    assert spec is not None  # noqa: S101 - its name ends in .py
    assert spec.loader is not None  # noqa: S101 - the same
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def hold_trace(headers: Mapping[str, str] | None, *, is_alone: bool) -> Any:
    """Give a handler its call's trace, if that has one."""
    if not headers:
        return contextlib.nullcontext()
    return _load_beside("held_trace").hold_trace(headers, is_alone=is_alone)


def _describe_signature(function: Any) -> dict[str, Any]:
    """Return what the engine needs to check the function against its tool."""
    parameters: list[list[Any]] | None = None
    with contextlib.suppress(ValueError, TypeError):
        parameters = [
            [each.name, int(each.kind), each.default is not each.empty]
            for each in inspect.signature(function).parameters.values()
        ]
    call = inspect.unwrap(function) if callable(function) else function
    return {
        "parameters": parameters,
        "type": type(function).__name__,
        "is_callable": callable(function) and not isinstance(function, type),
        "is_async": _load_beside("unawaited", "model/checks").is_async(function),
        "is_generator": inspect.isgeneratorfunction(call) or inspect.isasyncgenfunction(call),
    }


def answer_request(
    function: Callable[..., Any],
    open_runner: Callable[[], Any],
    request: Any,
    cpu: float | None,
    answers: int,
) -> bytes:
    if cpu:
        used = resource.getrusage(resource.RUSAGE_SELF)
        limit = math.ceil(used.ru_utime + used.ru_stime + cpu)
        _, hard = resource.getrlimit(resource.RLIMIT_CPU)
        resource.setrlimit(resource.RLIMIT_CPU, (limit, hard))
    reports = None
    try:
        arguments, reports = read_request(request, functools.partial(write_message, answers))
        with hold_trace(request.get("trace"), is_alone=True):
            value = function(**arguments)
            if inspect.isawaitable(value):
                is_async = _load_beside("unawaited", "model/checks").is_async(function)
                finish = _load_beside("awaited").await_value
                value = finish(value, open_runner, None if is_async else _HandlerError)
        answer = encode_result(request["id"], value)
    except BaseException as error:  # noqa: BLE001 - a handler may raise anything
        answer = encode_fault(request["id"], error)
    if reports is not None:
        reports.end()
    flush_words()
    return answer


def flush_words() -> None:
    """Pass on what a handler has printed."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):  # a handler may have put anything there
            stream.flush()


def read_request(request: Any, write: Callable[[bytes], object]) -> tuple[dict[str, Any], Any]:
    """Return the arguments for a call, and what takes its reports; None: it has none."""
    arguments = dict(request["params"])
    if request.get("context") is None:
        return arguments, None
    number = request["id"]

    def send(report: Mapping[str, Any]) -> None:
        write(_encode_message({"id": number, "report": report}))

    made = importlib.import_module("tool_engine.executors.python.reporting")
    reports = made.HandlerReports(send)
    arguments["context"] = made.make_context(request["context"], request["seconds"], reports.take)
    return arguments, reports


def encode_result(number: int, value: Any) -> bytes:
    """Return the answer with what a handler returned; raise for what cannot be sent."""
    answer = _encode_value(number, _lay_out(value))
    if len(answer) > MAX_MESSAGE:
        raise _HandlerError(
            f"the result has {len(answer)} bytes; the most is {MAX_MESSAGE}: return a part of it, "
            "or write it where its readers find it, and return the place"
        )
    return answer


def encode_fault(number: int, error: BaseException) -> bytes:
    """Return the answer with what a handler raised; its traceback goes to stderr."""
    faults = _load_beside("described_fault")
    with contextlib.suppress(BaseException):  # its attributes, and the stream, are the handler's
        if type(error) is not _HandlerError:
            faults.print_trace(error)
    # Without the message, which may hold what the engine hides: the result has it.
    return _encode_described(number, error, frames=faults.list_frames(error))


def _encode_described(number: int, error: BaseException, **more: str) -> bytes:
    """Return the answer that describes an error. Never raises: without it, its call would hang."""
    faults = _load_beside("described_fault")
    try:
        described = faults.describe_error(error, _HandlerError, _find_place)
    except BaseException as broken:  # noqa: BLE001 - its attributes are code of the handler
        words = f"it cannot be described ({faults.name_kind(broken)})"
        described = {"type": faults.name_kind(error), "message": words, "kind": "plain"}
    return _encode_message({"id": number, "error": described | more})


def _find_place(error: BaseException) -> str:
    return str(_load_beside("own_code", "redaction").find_place(error))


def _escape_half(character: str) -> str:
    is_half = "\ud800" <= character <= "\udfff"
    return f"\\\\u{ord(character):04x}" if is_half else character


def _lay_out(value: Any) -> Any:
    """Return a value with images and other content as blocks."""
    # A handler that returns content has imported its classes.
    if "tool_engine.model.content.pieces" not in sys.modules:
        return value
    return importlib.import_module("tool_engine.model.content.blocks").lay_out(value)


def _encode_value(number: int, value: Any) -> bytes:
    """Return the message with a handler's value; raise for what JSON would change."""
    has_text_keys = _has_text_keys(value, _MANY)
    # Loaded by name where it is needed: a handler that returns JSON must not pay for it.
    forms = functools.partial(importlib.import_module, "tool_engine.output.foreign_values")
    if has_text_keys is None:
        forms().check_unfolding(value)
    with contextlib.suppress(TypeError, ValueError, RecursionError):
        if has_text_keys is not False:
            answer = _encode_plain({"id": number, "value": value}).encode()
            if has_text_keys or _has_text_keys(value):
                return answer
    return b'{"id":%d,"value":%b}' % (number, forms().write_output(value, _has_text_keys))


class _HandlerError(Exception):
    """A handler's value that cannot leave its process."""


def _has_text_keys(value: Any, most: float = math.inf) -> bool | None:
    """Return whether JSON keeps its keys apart, unlike 1 and "1"; None: it holds more than that.

    Without a bound it has no end where a value holds itself.
    """
    waiting, seen = [value], 0
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            if not all(isinstance(key, str) for key in each):
                return False
            each = each.values()
        elif not isinstance(each, list | tuple):
            continue
        if (seen := seen + 1) > most:
            return None
        waiting += each
    return True


def _set_limit(kind: int, value: int) -> None:
    _, hard = resource.getrlimit(kind)
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    resource.setrlimit(kind, (value, value))


_encode_plain: Final = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, separators=(",", ":")
).encode
"""Made once: to make one takes as long as to write an answer."""


def _encode_message(message: Any) -> bytes:
    text = _encode_plain(message)
    try:
        return text.encode()
    except UnicodeEncodeError:  # halves of surrogate pairs, as in the name of a file
        return "".join(map(_escape_half, text)).encode()


def write_message(answers: int, data: bytes) -> None:
    left = memoryview(len(data).to_bytes(4, "big") + data)
    while left:
        left = left[os.write(answers, left) :]


def read_message(requests: int) -> Any:
    head = _read_bytes(requests, 4)
    if len(head) < 4:
        return None
    return json.loads(_read_bytes(requests, int.from_bytes(head, "big")) or b"null")


def _read_bytes(file: int, size: int) -> bytes:
    pieces = []
    while size > 0:
        piece = os.read(file, min(size, 1 << 20))
        if not piece:
            break
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


def _call_prctl(option: int, value: int) -> None:
    ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


if __name__ == "__main__":
    main()
