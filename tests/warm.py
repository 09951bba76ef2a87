"""How do tests start a hundred programs without importing the package in each?

One process has imported it and forks itself for each program: the same code, the same exit, its own
environment, folder, streams and terminal, without half a second of imports. What the start itself
is about runs in a new interpreter, in `tests/cli/test_start.py` and `test_app.py`.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import io
import json
import math
import os
import resource
import select
import selectors
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import termios
import threading
import types
from collections.abc import Mapping, Sequence
from fcntl import ioctl
from functools import partial
from pathlib import Path
from typing import IO, Any, Self

ROOT = Path(__file__).parents[1]
PROGRAM = ROOT / "tests" / "warm_program.py"
WARM = (
    "aiosqlite",
    "pydantic._internal._generate_schema",
    "pydantic.fields",
    "pydantic.plugin._loader",
    "pydantic.type_adapter",
    "pydantic.types",
    "rich.live",
    "runpy",
    "sqlalchemy.dialects.sqlite",
    "sqlalchemy.ext.asyncio",
    "tool_engine.agent.loop",
    "tool_engine.agent.models.recorded",
    "tool_engine.approval.console",
    "tool_engine.calls.plain_calls",
    "tool_engine.cli.app",
    "tool_engine.cli.chat.chat_command",
    "tool_engine.cli.chat.conversation",
    "tool_engine.cli.files",
    "tool_engine.cli.start",
    "tool_engine.cli.usage",
    "tool_engine.executors.bare_entry",
    "tool_engine.executors.calculator",
    "tool_engine.executors.commands.command_executor",
    "tool_engine.executors.commands.shell_entry",
    "tool_engine.executors.files.writing",
    "tool_engine.executors.http.http_entry",
    "tool_engine.executors.python.process_backend",
    "tool_engine.executors.sql.sql_entry",
    "tool_engine.executors.workflow.workflow_entry",
    "tool_engine.following",
    "tool_engine.knowledge.sql.retention",
    "tool_engine.knowledge.sql.storage",
    "tool_engine.knowledge.sql.summing",
    "tool_engine.knowledge.sql.writing.sqlite",
    "tool_engine.session.session",
    "typer._adapters",
    "typer._click.decorators",
)
"""What programs load."""
SDK = (
    "mcp.client.stdio",
    "mcp.server.mcpserver",
    "mcp.server.stdio",
    "mcp.server.subscriptions",
    "tool_engine.mcp_server",
    "uvicorn",
)
"""What servers of MCP tools load: half a second of imports, and more."""
ADDRESS = "TESTS_WARM"
"""The variable of the environment that says where the process of the whole run listens."""


class Program:
    """A running program; has what tests use of `subprocess.Popen`."""

    def __init__(
        self,
        words: Sequence[str],
        *,
        cwd: Path | str | None = None,
        env: Mapping[str, str] | None = None,
        streams: tuple[int, int, int] | None = None,
        is_at_terminal: bool = False,
        imports: Sequence[str] = (),
        server: Server | None = None,
    ) -> None:
        self.args = [sys.executable, *words]
        self.returncode: int | None = None
        self.processor_time = math.nan
        """Seconds, with those of the processes that it has waited for; known when it has ended."""
        self.stdin: IO[bytes] | None = None
        self.stdout: IO[bytes] | None = None
        self.stderr: IO[bytes] | None = None
        inner: list[int] = []
        if streams is None:
            (stdin, write), (out, stdout), (err, stderr) = os.pipe(), os.pipe(), os.pipe()
            inner = [stdin, stdout, stderr]
            self.stdin, self.stdout, self.stderr = (
                open(write, "wb", 0),  # noqa: PTH123, SIM115 - it lives as long as the program
                open(out, "rb"),  # noqa: PTH123, SIM115 - the same
                open(err, "rb"),  # noqa: PTH123, SIM115 - the same
            )
        self.status, ended = os.pipe()
        """Can be read when it has ended."""
        order = {
            "words": list(words),
            "cwd": os.fspath(Path.cwd() if cwd is None else cwd),
            "env": dict(os.environ if env is None else env),
            "is_at_terminal": is_at_terminal,
            "imports": list(imports),
            "open_files": resource.getrlimit(resource.RLIMIT_NOFILE),
        }
        try:
            self.pid = (server or _server()).start(order, [*(streams or inner), ended])
        finally:
            for each in (*inner, ended):
                os.close(each)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self.wait()
        for stream in (self.stdin, self.stdout, self.stderr):
            if stream is not None:
                stream.close()

    def poll(self) -> int | None:
        """Its exit code, if it has ended."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Waits for its end; gives its exit code."""
        if self.returncode is None:
            waiting = select.poll()  # `select` knows no number above 1,023
            waiting.register(self.status, select.POLLIN | select.POLLHUP)
            if not waiting.poll(None if timeout is None else 1000 * timeout):
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
            code, _, used = os.read(self.status, 100).partition(b" ")
            self.returncode, self.processor_time = int(code or b"-9"), float(used or b"nan")
            os.close(self.status)
        return self.returncode

    def communicate(
        self, sent: bytes | None = None, timeout: float | None = None
    ) -> tuple[bytes, bytes]:
        """Sends its input, and gives all that it wrote."""
        assert self.stdin is not None
        assert self.stdout is not None
        assert self.stderr is not None
        said: dict[str, bytes] = {}

        def read(name: str, stream: IO[bytes]) -> None:
            said[name] = stream.read()

        readers = [
            threading.Thread(target=read, args=("out", self.stdout), daemon=True),
            threading.Thread(target=read, args=("err", self.stderr), daemon=True),
        ]
        for each in readers:
            each.start()
        with contextlib.suppress(BrokenPipeError):
            view = memoryview(sent or b"")
            while view:
                view = view[self.stdin.write(view) :]
        with contextlib.suppress(BrokenPipeError):
            self.stdin.close()
        self.wait(timeout)
        for each in readers:
            each.join(timeout)
        self.stdout.close()
        self.stderr.close()
        return said["out"], said["err"]

    def send_signal(self, number: int) -> None:
        """Sends it a signal, unless it has ended."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """Asks it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Ends it at once."""
        self.send_signal(signal.SIGKILL)


def run(
    words: Sequence[str],
    *,
    cwd: Path | str | None = None,
    env: Mapping[str, str] | None = None,
    stdin: str = "",
    timeout: float = 60,
    imports: Sequence[str] = (),
) -> subprocess.CompletedProcess[str]:
    """Runs a program of this Python to its end: `words` as behind `python`, `-m` or `-c` first."""
    with Program(words, cwd=cwd, env=env, imports=imports) as program:
        out, err = program.communicate(stdin.encode(), timeout)
        return subprocess.CompletedProcess(program.args, program.wait(), out.decode(), err.decode())


def programs() -> Path:
    """A folder in which there are a `tool-engine` and a `python` that start at once."""
    folder = _server().address.parent / "programs"
    if not folder.exists():
        made = Path(tempfile.mkdtemp(dir=folder.parent))
        for name, words in (("tool-engine", ["-m", "tool_engine.cli"]), ("python", [])):
            script = made / name
            script.write_text(f'#!/bin/sh\nexec {shlex.join([*python(*SDK), *words])} "$@"\n')
            script.chmod(0o755)
        with contextlib.suppress(OSError):  # another process was first
            made.rename(folder)
    return folder


def python(*imports: str) -> list[str]:
    """What a command begins with in place of `sys.executable`: its program starts at once.

    The program is a process below a fork of the package's own: where its process id matters, or
    what it is killed or stopped by, start a new interpreter.

    Args:
        imports: Modules that the program needs beside those in `WARM`.
    """
    address = str(_server().address)
    return [sys.executable, "-I", "-S", str(PROGRAM), address, ",".join(imports)]


class Server:
    """The process that forks itself, for all that know its address."""

    def __init__(self, address: Path, imports: Sequence[str] = ()) -> None:
        self.address = address
        self._lock = threading.Lock()
        self._socket, inner = socket.socketpair()
        given = [inner, socket.socket(socket.AF_UNIX)]
        given[1].bind(str(address))
        given[1].listen(100)
        numbers = [each.fileno() for each in given]
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-c",
                f"from tests.warm import serve; serve(*{numbers}, {tuple(imports)})",
            ],
            cwd=ROOT,
            pass_fds=numbers,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        for each in given:
            each.close()

    def start(self, order: Mapping[str, Any], streams: Sequence[int]) -> int:
        """Starts a program; gives its process id."""
        data = json.dumps(order).encode()
        with self._lock:
            socket.send_fds(self._socket, [len(data).to_bytes(4, "big")], streams)
            self._socket.sendall(data)
            return int.from_bytes(self._socket.recv(4, socket.MSG_WAITALL), "big")

    def close(self) -> None:
        """Ends it, when others that ask it have ended, too."""
        self._socket.close()
        self._process.wait()


class _SharedServer(Server):
    """The one of the whole run, which `python -m tests` started."""

    def __init__(self, address: Path) -> None:
        self.address = address
        self._lock = threading.Lock()
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(str(address))

    def close(self) -> None:
        self._socket.close()


_servers: dict[int, Server] = {}


def _server() -> Server:
    """The one that this process asks."""
    if os.getpid() not in _servers:
        address = os.environ.get(ADDRESS)
        if address:
            _servers[os.getpid()] = _SharedServer(Path(address))
        else:
            # Not where the first test that starts a program has its own temporary files.
            place = os.environ.get("TMPDIR", "/tmp")  # noqa: S108 - what is made there is its own
            folder = tempfile.mkdtemp(prefix="warm-", dir=place)
            atexit.register(shutil.rmtree, folder, ignore_errors=True)
            _servers[os.getpid()] = Server(Path(folder) / "warm")
        atexit.register(_servers[os.getpid()].close)
    return _servers[os.getpid()]


def serve(number: int, listening: int, imports: Sequence[str]) -> None:
    """Starts programs until all other ends are gone; returns in none but the programs."""
    _import_all((*WARM, *imports))
    # It stays: what it has open has numbers that a program gives to files of its own.
    forks = _Forks(number, listening)
    try:
        _become(*forks.run())
    except SystemExit as ended:
        if not isinstance(ended.code, int | None):
            raise
        _end(ended.code or 0)
    _end(0)


def _end(code: int) -> None:
    """Ends a program as the interpreter does, but for freeing each of its modules.

    That takes six times as long as most programs, for it touches all that a fork shares.
    """
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    vars(sys.modules["__main__"]).clear()
    gc.collect()  # what is told of when it is freed
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        sys.exit(code)  # the interpreter says what cannot be written
    os._exit(code)


def _import_all(names: Sequence[str]) -> None:
    if any(name not in sys.modules for name in names):
        for name in names:
            importlib.import_module(name)
        gc.collect()
        gc.freeze()


Order = tuple[dict[str, Any], list[int]]
"""What to run, and the numbers of its streams."""


class _Forks:
    """The loop of the server."""

    def __init__(self, number: int, listening: int) -> None:
        self._selector = selectors.DefaultSelector()
        self._selector.register(socket.socket(fileno=number), selectors.EVENT_READ, self._obey)
        self._askers = 1
        self._ends_with: dict[socket.socket, int] = {}
        """Programs that are killed when who asked for them has ended."""
        asked = socket.socket(fileno=listening)
        self._selector.register(asked, selectors.EVENT_READ, self._accept)

    def run(self) -> Order:
        """Forks; returns in the forks alone."""
        while self._askers:
            for key, _ in self._selector.select():
                order: Order | None = key.data(key.fileobj)
                if order is not None:
                    return order
        os._exit(0)

    def _accept(self, asked: socket.socket) -> None:
        self._selector.register(asked.accept()[0], selectors.EVENT_READ, self._obey)
        self._askers += 1

    def _obey(self, orders: socket.socket) -> Order | None:
        order, streams = None, list[int]()
        with contextlib.suppress(OSError):  # who asked was killed
            order, streams = _read_order(orders)
        if order is None:
            self._selector.unregister(orders)
            self._askers -= 1
            if (pid := self._ends_with.pop(orders, None)) is not None:
                os.killpg(pid, signal.SIGKILL)
            orders.close()
            return None
        _import_all(order.get("imports", ()))
        pid = os.fork()
        if pid == 0:
            return order, streams
        if order.get("ends_with_asker"):
            self._ends_with[orders] = pid
        with contextlib.suppress(OSError):
            orders.sendall(pid.to_bytes(4, "big"))
        tell_end = partial(self._tell_end, orders, pid, streams.pop())
        self._selector.register(os.pidfd_open(pid), selectors.EVENT_READ, tell_end)
        for each in streams:
            os.close(each)
        return None

    def _tell_end(self, orders: socket.socket, pid: int, ended: int, watched: int) -> None:
        self._selector.unregister(watched)
        self._ends_with.pop(orders, None)
        _, status, used = os.wait4(pid, 0)
        said = f"{os.waitstatus_to_exitcode(status)} {used.ru_utime + used.ru_stime:.2f}"
        with contextlib.suppress(BrokenPipeError):
            os.write(ended, said.encode())
        os.close(ended)
        os.close(watched)


def _read_order(orders: socket.socket) -> tuple[dict[str, Any] | None, list[int]]:
    head, streams, _, _ = socket.recv_fds(orders, 4, 4)
    if not head:
        return None, []
    data = orders.recv(int.from_bytes(head, "big"), socket.MSG_WAITALL)
    return json.loads(data), streams


def _become(order: dict[str, Any], streams: Sequence[int]) -> None:
    """Makes the forked process what a new one would be, and runs its program."""
    for number, stream in enumerate(streams[:3]):
        os.dup2(stream, number)
    os.closerange(3, 1024)
    if order.get("is_at_terminal") or order.get("ends_with_asker"):
        os.setsid()
    if order.get("is_at_terminal"):
        ioctl(0, termios.TIOCSCTTY, 0)
    if "open_files" in order:
        resource.setrlimit(resource.RLIMIT_NOFILE, order["open_files"])
    os.environ.clear()
    os.environ.update(order["env"])
    os.chdir(order["cwd"])
    for name, number, mode in (("stdin", 0, "rb"), ("stdout", 1, "wb"), ("stderr", 2, "wb")):
        before = getattr(sys, name)
        raw: Any = os.fdopen(number, mode, closefd=False)
        text = io.TextIOWrapper(
            raw,
            before.encoding,
            before.errors,
            line_buffering=name == "stderr" or os.isatty(number),
        )
        setattr(sys, name, text)
        setattr(sys, f"__{name}__", text)
    kind, *words = order["words"]
    main = types.ModuleType("__main__")
    sys.modules["__main__"] = main
    if kind == "-c":
        sys.path[0] = ""
        sys.argv = ["-c", *words[1:]]
        exec(compile(words[0], "<string>", "exec"), vars(main))  # noqa: S102 - the test's own program
        return
    import runpy

    if kind == "-m":
        sys.path[0] = order["cwd"]
        sys.argv = words
        runpy.run_module(words[0], run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = str(Path(order["cwd"], kind).parent)
        sys.argv = [kind, *words]
        runpy.run_path(kind, run_name="__main__")
