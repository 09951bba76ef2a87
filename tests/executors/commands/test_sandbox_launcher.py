"""How the sandbox is put up; what it keeps in is in tests/security/test_shell.py.

Landlock, seccomp and the loss of capabilities concern one thread, so a thread of the test's own can
be shut in. Its limit on core dumps would concern all and is left out.
"""

from __future__ import annotations

import json
import os
import platform
import resource
import socket
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tool_engine.executors.commands import sandbox_launcher as launcher
from tool_engine.executors.commands.call_filter import call_filter

needs_kernel = pytest.mark.skipif(
    bool(launcher.find_obstacle()), reason=launcher.find_obstacle() or "it can"
)


def in_thread(work: Callable[[], Any]) -> Any:
    outcomes: list[Any] = []

    def run() -> None:
        try:
            outcomes.append(work())
        except BaseException as error:  # noqa: BLE001 - it travels to the test
            outcomes.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(20.0)
    return outcomes[0]


def policy(folder: Path, *, network: bool = False) -> dict[str, Any]:
    (folder / "mine").mkdir(exist_ok=True)
    (folder / "read").write_text("a")
    return {
        "read": [str(folder / "read")],
        "write": [str(folder / "mine")],
        "devices": ["/dev/null"],
        "network": network,
        "calls": calls(network=network, has_attributes=False),
        "calls_with_mounts": calls(network=network, has_attributes=True),
        "program": "/bin/echo",
    }


def calls(*, network: bool, has_attributes: bool) -> str:
    machine = platform.machine()
    return call_filter(machine, has_network=network, has_attributes=has_attributes).hex()


@pytest.fixture
def _no_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "setrlimit", lambda *_: None)


@needs_kernel
@pytest.mark.usefixtures("_no_limit")
@pytest.mark.parametrize("network", [False, True])
@pytest.mark.parametrize("has_mounts", [False, True])
def test_shut_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, network: bool, has_mounts: bool
) -> None:
    """A policy is in force from then on, for the one thread.

    Modes can be set of what may be written, where the kernel lets all else be mounted read-only.
    """
    if not has_mounts:
        monkeypatch.setattr(launcher, "_leave_mounts", refuse)

    def work() -> dict[str, bool]:
        launcher.shut_in(policy(tmp_path, network=network))
        return {
            "read": succeeds((tmp_path / "read").read_text),
            "change": succeeds(lambda: (tmp_path / "read").write_text("b")),
            "write": succeeds(lambda: (tmp_path / "mine" / "new").write_text("b")),
            "outside": succeeds(lambda: (tmp_path / "new").write_text("b")),
            "mode": succeeds(lambda: (tmp_path / "mine" / "new").chmod(0o600)),
            "other mode": succeeds(lambda: (tmp_path / "read").chmod(0o600)),
            "time": succeeds(lambda: os.utime(tmp_path / "mine" / "new")),
            "other time": succeeds(lambda: os.utime(tmp_path / "read")),
            "socket": succeeds(lambda: socket.socket().close()),
        }

    allowed = {name for name, is_allowed in in_thread(work).items() if is_allowed}
    expected = {"read", "write"} | ({"socket"} if network else set())
    if not has_mounts:
        assert allowed == expected
    else:  # users other than root cannot in a thread
        assert allowed in (expected, expected | {"mode", "time"})
        assert os.geteuid() != 0 or "mode" in allowed
    (tmp_path / "new").write_text("here nothing has changed")


def refuse() -> None:
    raise PermissionError(1, "a container")


def succeeds(work: Callable[[], Any]) -> bool:
    try:
        work()
    except OSError:
        return False
    return True


@needs_kernel
@pytest.mark.usefixtures("_no_limit")
def test_main(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The program takes the place of the launcher, or nothing runs at all."""
    ran: list[Any] = []
    monkeypatch.setattr(os, "execv", lambda *arguments: ran.append(arguments))
    monkeypatch.setattr(sys, "argv", ["launcher", json.dumps(policy(tmp_path)), "echo", "a"])
    assert in_thread(launcher.main) is None
    assert ran == [("/bin/echo", ["echo", "a"])]
    broken = {**policy(tmp_path), "read": ["/no/such"]}
    monkeypatch.setattr(sys, "argv", ["launcher", json.dumps(broken), "echo", "a"])
    assert in_thread(launcher.main).code == launcher.CANNOT_SHUT_IN
    assert len(ran) == 1
    assert "sandbox cannot be set up: [Errno 2]" in capsys.readouterr().err


@needs_kernel
def test_a_call_that_fails_is_no_sandbox() -> None:
    """What the kernel refuses is told with its reason."""
    with pytest.raises(OSError, match="syscall 446: Bad file descriptor"):
        launcher._call_libc("syscall", 446, -1, 0)
