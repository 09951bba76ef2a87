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
import traceback
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NoReturn

MAX_MESSAGE: Final = 16 * 1024 * 1024
"""The most bytes of one message."""
IDLE_SECONDS: Final = 300.0
"""A worker without a request for so long ends itself; another one starts when needed."""

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 1, 36, 38
_MOST_FRAMES: Final = 8_192
"""Characters of a traceback."""
_MOST_CHARACTERS: Final = 65_536
"""Of an error's message: more than the engine searches for secrets, for half a secret is none."""


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
        with _hold_trace(request.get("trace", {})):
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
    value, answer = _encode_value(number, _lay_out(value))
    if len(answer) > MAX_MESSAGE:
        raise _HandlerError(
            f"the result has {len(answer)} bytes; the most is {MAX_MESSAGE}: return a part of it, "
            "or write it where its readers find it, and return the place"
        )
    _check_keys(value)
    return answer


def encode_fault(number: int, error: BaseException) -> bytes:
    """Return the answer with what a handler raised; its traceback goes to stderr."""
    with contextlib.suppress(Exception):  # a handler may have put anything there
        if not isinstance(error, _HandlerError):
            traceback.print_exception(error)
    # Without the message, which may hold what the engine hides: the result has it.
    frames = "".join(traceback.format_tb(error.__traceback__))[-_MOST_FRAMES:]
    return _encode_described(number, error, frames=frames)


def _encode_described(number: int, error: BaseException, **more: str) -> bytes:
    """Return the answer that describes an error. Never raises: without it, its call would hang."""
    try:
        described = _describe_error(error)
    except BaseException as broken:  # noqa: BLE001 - its attributes are code of the handler
        words = f"it cannot be described ({type(broken).__name__})"
        described = {"type": type(error).__name__, "message": words, "kind": "plain"}
    text = _encode_plain({"id": number, "error": described | more})
    try:
        return text.encode()
    except UnicodeEncodeError:  # halves of surrogate pairs, as in the name of a file
        return "".join(map(_escape_half, text)).encode()


def _escape_half(character: str) -> str:
    is_half = "\ud800" <= character <= "\udfff"
    return f"\\\\u{ord(character):04x}" if is_half else character


def _lay_out(value: Any) -> Any:
    """Return a value with images and other content as blocks."""
    # A handler that returns content has imported its classes.
    if "tool_engine.model.content.pieces" not in sys.modules:
        return value
    return importlib.import_module("tool_engine.model.content.blocks").lay_out(value)


@contextlib.contextmanager
def _hold_trace(headers: Mapping[str, str]) -> Iterator[None]:
    """Give the handler the call's trace, as if it ran in the engine."""
    names = {name.upper(): value for name, value in headers.items()}
    os.environ.update(names)
    # A handler that has no use for OpenTelemetry must not pay for its import.
    context = None
    if headers and "opentelemetry.context" in sys.modules:  # a thread may be at importing it
        context = importlib.import_module("opentelemetry.context")
    with contextlib.ExitStack() as stack:
        for name in names:
            stack.callback(os.environ.pop, name, None)
        if context is not None:
            form = importlib.import_module("opentelemetry.trace.propagation.tracecontext")
            token = context.attach(form.TraceContextTextMapPropagator().extract(headers))
            stack.callback(context.detach, token)
        yield


def _encode_value(number: int, value: Any) -> tuple[Any, bytes]:
    """Return a handler's value, taken apart where it is no JSON, and the message with it."""
    stand_in = None
    with contextlib.suppress(ValueError, RecursionError):
        try:
            return value, _write_json({"id": number, "value": value})
        except TypeError:
            # Loaded by name: a handler that returns JSON must not pay for it.
            value = importlib.import_module("tool_engine.output.foreign_values").plain_output(value)
            stand_in = importlib.import_module("tool_engine.model.json.returned_value").stand_in
        except ValueError:
            # Of a number with too many digits it says what to return; else this says nothing.
            importlib.import_module("tool_engine.output.foreign_values").plain_output(value)
    return value, _encode_message({"id": number, "value": value}, stand_in)


class _HandlerError(Exception):
    """A handler's value that cannot leave its process."""


def _check_keys(value: Any) -> None:
    """Refuse keys that JSON would merge, such as 1 and "1"."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            for key in each:
                if not isinstance(key, str):
                    raise _HandlerError(f"the result has the key {key!r:.100}; keys are texts")
            waiting.extend(each.values())
        elif isinstance(each, list | tuple):
            waiting.extend(each)


def _describe_error(error: BaseException) -> dict[str, Any]:
    try:
        text = str(error)
    except Exception as broken:  # noqa: BLE001 - any exception class may have a broken __str__
        text = f"its message cannot be shown ({type(broken).__name__})"
    names = {f"{kind.__module__}.{kind.__qualname__}" for kind in type(error).__mro__}
    is_ours = "tool_engine.errors.ToolExecutionError" in names
    described: dict[str, Any] = {
        "type": type(error).__name__,
        "message": text[:_MOST_CHARACTERS],
        "kind": "plain",
    }
    if is_ours or isinstance(error, _HandlerError):
        described["kind"] = "execution"
        described["is_final"] = getattr(error, "is_final", False) is True
        details = getattr(error, "details", None)
        _add_plain(described, "details", details if isinstance(details, dict) else {})
        if "tool_engine.errors.InvalidArgumentsError" in names:
            described["kind"] = "arguments"
            _add_plain(described, "findings", getattr(error, "findings", []))
    elif "tool_engine.errors.ConfigurationError" in names:
        described["kind"] = "definition"
    else:
        kinds = ((TimeoutError, "timeout"), (MemoryError, "memory"), (SystemExit, "exit"))
        described["kind"] = next((name for kind, name in kinds if isinstance(error, kind)), "plain")
    if described["kind"] == "plain":
        with contextlib.suppress(Exception):  # where no more files can be opened
            described["raised_at"] = _load_beside("own_code", "redaction").find_place(error)
    return described


def _add_plain(described: dict[str, Any], name: str, value: Any) -> None:
    """Add what is JSON, and leave out what is not."""
    with contextlib.suppress(TypeError, ValueError, RecursionError):
        described[name] = json.loads(json.dumps(value, allow_nan=False))


def _set_limit(kind: int, value: int) -> None:
    _, hard = resource.getrlimit(kind)
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    resource.setrlimit(kind, (value, value))


def _encode_message(message: Any, stand_in: Callable[[Any], Any] | None = None) -> bytes:
    try:
        return _write_json(message, stand_in)
    except (TypeError, ValueError, RecursionError) as error:
        raise _HandlerError(
            f"the result is not made of JSON values (texts, numbers, true, false, null, lists, "
            f"mappings): {error}"
        ) from None


_FORM: Final[dict[str, Any]] = {
    "ensure_ascii": False,
    "allow_nan": False,
    "separators": (",", ":"),
}
_encode_plain: Final = json.JSONEncoder(**_FORM).encode
"""Made once: to make one takes as long as to write an answer."""


def _write_json(message: Any, stand_in: Callable[[Any], Any] | None = None) -> bytes:
    encode = (
        _encode_plain if stand_in is None else json.JSONEncoder(**_FORM, default=stand_in).encode
    )
    return encode(message).encode()


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
