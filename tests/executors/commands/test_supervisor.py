"""How a program is watched and ended; the hostile families are in tests/security."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from time import monotonic

import pytest

from tool_engine.errors import ToolExecutionError
from tool_engine.executors.commands import supervisor
from tool_engine.executors.commands.supervisor import Bell, Command, End, Finished, Supervisor

PROGRAM = """
import os, signal, sys, threading
from time import monotonic
from tool_engine.executors.commands.supervisor import *
bell = Bell()
bell.open()
def run(*argv):
    found = Supervisor(Command("/bin/sh", ("sh", "-c", *argv), {}), monotonic() + 20, bell).run()
    return found.exit_code, found.end, found.stdout.text()
"""


def supervise(script: str, *, rings: int = 0, seconds: float | None = 20.0) -> Finished:
    """Runs in a thread of its own, as its thread loses rights for good."""
    outcomes: list[Finished | Exception] = []
    bell = Bell()
    bell.open()
    deadline = None if seconds is None else monotonic() + seconds
    command = Command("/bin/sh", ("sh", "-c", script), {"A": "b"})

    def work() -> None:
        try:
            outcomes.append(Supervisor(command, deadline, bell).run())
        except Exception as error:  # noqa: BLE001 - it travels to the test
            outcomes.append(error)

    for _ in range(rings):
        bell.ring()
    thread = threading.Thread(target=work)
    thread.start()
    thread.join(20.0)
    bell.close()
    (outcome,) = outcomes
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


def test_without_a_deadline() -> None:
    """A run without limit ends with its program."""
    finished = supervise("echo a", seconds=None)
    assert (finished.exit_code, finished.end, finished.stdout.text()) == (0, End.ITSELF, "a\n")


def test_a_request_to_end_is_made_first() -> None:
    """A program that cleans up on SIGTERM has the time to do so, and its last words are kept."""
    script = "trap 'echo cleaned; exit 0' TERM; echo ready; while :; do sleep 0.02; done"
    finished = supervise(script, seconds=2.0)
    assert finished.end is End.TIMEOUT
    assert finished.exit_code == 0
    assert finished.stdout.text() == "ready\ncleaned\n"


def test_no_time_at_all() -> None:
    """A deadline that is over already ends the program at once."""
    assert supervise("sleep 60", seconds=-1.0).end is End.TIMEOUT


def test_rung_before_the_start() -> None:
    """A call that ended while it waited for its thread starts nothing."""
    with pytest.raises(ToolExecutionError, match="ended before its program was started"):
        supervise("echo a", rings=1)


def test_a_closed_bell_is_silent() -> None:
    """Whoever rings too late rings nobody, and closes no file of others."""
    bell = Bell()
    bell.close()
    bell.open()
    bell.close()
    reader, writer = os.pipe()  # they get the numbers that the bell had
    os.set_blocking(reader, False)
    bell.ring()
    bell.close()
    with pytest.raises(BlockingIOError):
        os.read(reader, 1)
    os.close(reader)
    os.close(writer)


def isolated(code: str, given: str | None = None) -> str:
    """What `code` prints in a process of its own, with `given` as its input."""
    done = subprocess.run(
        input=given,
        args=[sys.executable, "-c", PROGRAM + code],
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
        cwd=Path(__file__).parents[3],
    )
    assert done.stderr == ""
    return done.stdout.strip()


def test_the_input_of_this_process_stays_here() -> None:
    """A program does not read what is meant for the process that started it."""
    assert isolated("print(run('cat'), sys.stdin.read())", "text") == (
        "(0, <End.ITSELF: 'itself'>, '') text"
    )


def test_where_children_reap_themselves() -> None:
    """With SIGCHLD ignored the exit code is lost, which is said: it is not taken for 0."""
    code = "signal.signal(signal.SIGCHLD, signal.SIG_IGN)\nprint(run('sleep 60 & echo a; exit 3'))"
    assert isolated(code) == "(None, <End.ITSELF: 'itself'>, 'a\\n')"


def test_where_somebody_reaps_all_children() -> None:
    """A greedy `waitpid(-1)` elsewhere in the process takes the code, and confuses nothing."""
    code = """
def greedy():
    while True:
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            pass
threading.Thread(target=greedy, daemon=True).start()
codes = {run('sleep 60 & sleep 0.05; exit 3')[0] for _ in range(10)}
print(codes <= {None, 3}, flush=True)
os._exit(0)
"""
    assert isolated(code) == "True"


def test_ended_by_a_signal() -> None:
    """The number of the signal, as a negative exit code."""
    assert supervise("kill -KILL $$").exit_code == -signal.SIGKILL


def test_no_file_left() -> None:
    """A process that has used up its files says so, and keeps none of the command's."""
    code = """
import resource
limit = len(os.listdir('/proc/self/fd')) + 1
resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
before = len(os.listdir('/proc/self/fd'))
try:
    run('echo a')
except Exception as error:
    print(error, len(os.listdir('/proc/self/fd')) - before)
"""
    assert isolated(code) == "the program /bin/sh cannot be started: Too many open files 0"


def test_reaped_by_others_before_it_is_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that is gone before there is a handle for it has ended, and that is all."""

    def gone(pid: int) -> int:
        os.waitpid(pid, 0)
        raise ProcessLookupError(pid)

    with monkeypatch.context() as patched:
        patched.setattr(os, "pidfd_open", gone)
        finished = supervise("exit 3")
    assert (finished.exit_code, finished.end) == (None, End.ITSELF)


def test_what_gets_away_holds_up_nothing() -> None:
    """What wipes its environment and leaves its session is not found, and is not waited for."""
    escape = "env -i setsid sh -c 'echo $$; exec sleep 60' & sleep 0.3; echo done"
    finished = supervise(escape)
    pid, _, rest = finished.stdout.text().partition("\n")
    os.kill(int(pid), signal.SIGKILL)
    assert (finished.end, rest) == (End.ITSELF, "done\n")


def test_rung_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second time nobody waits for the program any more."""
    monkeypatch.setattr(supervisor, "_GRACE", 1000.0)
    bell, outcomes = Bell(), list[Finished]()
    bell.open()
    script = "trap 'echo asked' TERM; echo ready; while :; do sleep 0.01; done"
    run = Supervisor(Command("/bin/sh", ("sh", "-c", script), {}), None, bell)
    thread = threading.Thread(target=lambda: outcomes.append(run.run()))
    thread.start()
    for text in ("ready", "asked"):
        give_up_at = monotonic() + 20.0
        while not any(text in kept.text() for kept in list(run._streams.values())):
            assert monotonic() < give_up_at
        bell.ring()
    thread.join(20.0)
    bell.close()
    ((code, end),) = [(finished.exit_code, finished.end) for finished in outcomes]
    assert (code, end) == (-signal.SIGKILL, End.STOPPED)


def test_it_waits_until_the_group_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The killed take a moment to go, and a run is not over before."""
    answers = [True, True, False]
    monkeypatch.setattr(supervisor, "is_group_alive", lambda group: answers.pop(0))
    process = subprocess.Popen(["/bin/sleep", "60"], start_new_session=True)
    supervisor._wait_for_group(process.pid)
    process.kill()
    process.wait()
    assert answers == []
