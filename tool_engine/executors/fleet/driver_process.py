"""How does the process start that speaks to Ray for an engine, and how does it end?"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from typing import Final

from tool_engine.errors import MissingExtraError
from tool_engine.executors.commands.strays import MARK, end_strays, marks_with, new_mark

_START: Final = """
import json, socket, sys
sys.path[:] = json.loads(sys.argv[2])
try:
    from tool_engine.executors.fleet.driver import serve_engine
except BaseException as error:
    why = f"Ray cannot be imported: {type(error).__name__}: {str(error)[:300]}"
    said = json.dumps({"failed": why}).encode()
    socket.socket(fileno=int(sys.argv[1])).sendall(len(said).to_bytes(4, "big") + said)
    raise
serve_engine()
"""
"""What it says first where it cannot begin: a folder of the engine's may have a module with the
name of one that Ray needs."""
_QUIET: Final = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DISABLE_IMPORT_WARNING": "1",
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_timeout_ms_task_wait_for_death_info": "200",
    "RAY_core_worker_internal_heartbeat_ms": "100",
}
"""What Ray reads: no statistics to its makers, the interpreter that runs us on the nodes, and how
long a lost call waits for the cause of its worker's death to be known, and how often it looks
whether that time is over: a second otherwise, each of them."""
_LOOPBACK: Final = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
"""Without it Ray takes this machine's outer address for its node's, and listens on all of them."""
_AS_OTHERS: Final = {"RAY_worker_niceness": "0"}
"""As worker processes of `isolation: process` run; Ray gives its own what all others leave of the
processors, so that beside other work a call does not begin for a minute."""
_SECONDS_TO_END: Final = 10.0
_LONGEST_FOLDER: Final = 40
"""Characters of a folder below which Ray can make its sockets."""


class DriverProcess:
    """The process that speaks to Ray, which is started at once.

    Args:
        theirs: Its end of the connection.
        address: The setting `fleet`.

    Raises:
        MissingExtraError: Ray is not installed.
    """

    def __init__(self, theirs: socket.socket, address: str) -> None:
        self._folder = self._mark = ""
        """Of the Ray that it starts itself, and of all processes that belong to that."""
        self._process = self._start_process(theirs, address)
        self.pid = self._process.pid

    def end_process(self, seconds: float = _SECONDS_TO_END) -> None:
        """Wait for its end, as its connection is closed; kill it after so long. Blocks."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._folder:  # it removes that itself, unless it was killed
            # Some of Ray's own outlive such a driver.
            end_strays(self._mark)
            shutil.rmtree(self._folder, ignore_errors=True)

    def _start_process(self, theirs: socket.socket, address: str) -> subprocess.Popen[bytes]:
        if find_spec("ray") is None:
            raise MissingExtraError(
                "tools with isolation: ray need Ray: pip install 'tool-engine[ray]'"
            )
        environment = {**os.environ, **_QUIET}
        if address == "local":
            folder = tempfile.gettempdir()
            if len(folder) > _LONGEST_FOLDER:
                folder = "/tmp"  # noqa: S108 - mkdtemp makes a folder of its own there
            environment = {**_AS_OTHERS, **environment, **_LOOPBACK}
            environment["RAY_TMPDIR"] = self._folder = tempfile.mkdtemp(prefix="te-", dir=folder)
            self._mark = new_mark()
            environment[MARK] = marks_with(self._mark)
        return subprocess.Popen(  # noqa: S603 - this interpreter, our module
            [sys.executable, "-I", "-u", "-c", _START, str(theirs.fileno()), json.dumps(sys.path)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(theirs.fileno(),),
            env=environment,
            start_new_session=True,
        )
