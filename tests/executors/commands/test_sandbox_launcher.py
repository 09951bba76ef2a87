"""How the sandbox is put up; what it keeps in is in tests/security/test_shell.py.

Landlock, seccomp and the loss of capabilities concern one thread, so a thread of the test's own can
be shut in. Its limit on core dumps would concern all and is left out.
"""

from __future__ import annotations

import errno
import json
import os
import platform
import resource
import socket
import struct
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tool_engine.executors.commands import sandbox_launcher as launcher

needs_kernel = pytest.mark.skipif(bool(launcher.obstacle()), reason=launcher.obstacle() or "it can")
EPERM = 0x00050000 | errno.EPERM
ENOSYS = 0x00050000 | errno.ENOSYS
KILL, PASS = 0x80000000, 0x7FFF0000


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
        "write": [str(folder / "mine"), "/dev/null"],
        "network": network,
        "program": "/bin/echo",
    }


@pytest.fixture
def _no_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "setrlimit", lambda *_: None)


@needs_kernel
@pytest.mark.usefixtures("_no_limit")
@pytest.mark.parametrize("network", [False, True])
def test_shut_in(tmp_path: Path, network: bool) -> None:
    """A policy is in force from then on, for the one thread."""

    def work() -> dict[str, bool]:
        launcher.shut_in(policy(tmp_path, network=network))
        return {
            "read": succeeds((tmp_path / "read").read_text),
            "change": succeeds(lambda: (tmp_path / "read").write_text("b")),
            "write": succeeds(lambda: (tmp_path / "mine" / "new").write_text("b")),
            "outside": succeeds(lambda: (tmp_path / "new").write_text("b")),
            "mode": succeeds(lambda: (tmp_path / "mine" / "new").chmod(0o600)),
            "socket": succeeds(lambda: socket.socket().close()),
        }

    allowed = {name for name, is_allowed in in_thread(work).items() if is_allowed}
    assert allowed == {"read", "write"} | ({"socket"} if network else set())
    (tmp_path / "new").write_text("here nothing has changed")


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


def verdict(program: bytes, number: int, *arguments: int, machine: int) -> int:
    """What the kernel would do: a reader of the few BPF instructions that there are."""
    values = (*arguments, 0, 0, 0, 0, 0, 0)[:6]
    data = struct.pack("IIQ6Q", number, machine, 0, *values)
    lines = [struct.unpack_from("HBBI", program, place) for place in range(0, len(program), 8)]
    accumulator = line = 0
    while True:
        code, then, otherwise, value = lines[line]
        line += 1
        if code == 0x06:
            return int(value)
        if code == 0x20:
            (accumulator,) = struct.unpack_from("I", data, value)
        else:
            is_so = {
                0x15: accumulator == value,
                0x35: accumulator >= value,
                0x45: bool(accumulator & value),
            }[code]
            line += then if is_so else otherwise


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
@pytest.mark.parametrize("network", [False, True])
def test_each_call(monkeypatch: pytest.MonkeyPatch, machine: str, network: bool) -> None:
    """What is refused, with which arguments, on either kind of processor."""
    monkeypatch.setattr(platform, "machine", lambda: machine)
    code, numbers = launcher._ARCHITECTURES[machine]
    program = b"".join(launcher._filter(has_network=network))

    def ask(name: str | int, *arguments: int) -> int:
        number = numbers[name] if isinstance(name, str) else name
        return verdict(program, number, *arguments, machine=code)

    special = {"clone", "socket", "prlimit64", "utimensat"}
    assert {ask(name) for name in {*numbers} - special} == {EPERM}
    assert {ask(number) for number in launcher._NEWER.values()} == {EPERM}
    assert ask(435) == ENOSYS
    assert [ask("socket", family) for family in (2, 10)] == [PASS if network else EPERM] * 2
    assert {ask("socket", family) for family in (0, 1, 16, 17, 38, 40)} == {EPERM}
    assert (ask("prlimit64", 0), ask("prlimit64", 1)) == (PASS, EPERM)
    assert ask("utimensat", 3, 0) == PASS
    assert {ask("utimensat", 3, at) for at in (1, 1 << 32, (1 << 32) + 1)} == {EPERM}
    assert (ask("clone", 0x11), ask("clone", 0x3D0F00)) == (PASS, PASS)
    for flag in (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000):
        assert ask("clone", flag | 0x11) == EPERM
    used = {*numbers.values(), *launcher._NEWER.values(), 435}
    assert {ask(number) for number in range(480) if number not in used} == {PASS}
    assert ask(0x40000001) == KILL
    assert verdict(program, 1, machine=0x40000003) == KILL


def test_numbers() -> None:
    """No number stands twice, and both processors have the same calls as far as they have them."""
    (_, x86), (_, arm) = launcher._ARCHITECTURES.values()
    for numbers in (x86, arm):
        together = [*numbers.values(), *launcher._NEWER.values()]
        assert len(set(together)) == len(together)
    # Those are older forms of others, which the younger processor never had.
    assert set(x86) - set(arm) == {
        "chmod", "chown", "lchown", "utime", "utimes", "futimesat", "inotify_init",
    }  # fmt: skip
    assert set(arm) <= set(x86)


@needs_kernel
def test_a_call_that_fails_is_no_sandbox() -> None:
    """What the kernel refuses is told with its reason."""
    with pytest.raises(OSError, match="syscall 446: Bad file descriptor"):
        launcher._call("syscall", 446, -1, 0)
