"""Can a hostile script in the sandbox tell anything to others, or take anything from them?"""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket

import pytest

from tests.security.shell_cell import Cell
from tool_engine.executors.commands.sandbox_launcher import find_obstacle

pytestmark = pytest.mark.skipif(bool(find_obstacle()), reason=find_obstacle() or "it can")


async def test_no_network(cell: Cell) -> None:
    """No socket of any kind, so no name either: nothing is told to anybody."""
    code = """
        import socket
        for family in range(1, 46):
            for kind in (1, 2, 3, 5):
                try:
                    socket.socket(family, kind)
                    print("open", family, kind)
                except OSError as error:
                    assert error.errno == 1, error
        print(len(socket.socketpair()))
    """
    assert await cell.python(code) == "2\n"


async def test_network_is_the_internet_only(cell: Cell) -> None:
    """With `network: true` a script may dial, but not the sockets of local services."""
    listener = socket.create_server(("127.0.0.1", 0))
    code = f"""
        import socket
        print(socket.create_connection(("127.0.0.1", {listener.getsockname()[1]})) is not None)
        for family in (1, 16, 17, 38, 40):
            try:
                socket.socket(family)
                print("open", family)
            except OSError as error:
                assert error.errno == 1, error
    """
    with listener:
        assert await cell.python(code, network=True) == "True\n"


@pytest.mark.parametrize("network", [False, True])
async def test_no_local_service(cell: Cell, network: bool) -> None:
    """Nothing is sent to the socket of a local service, and nothing comes in over one.

    Tried: both ends of every kind of pair, named or connected, descriptors as well as texts.
    Looked at: whatever takes an address (`connect`, `sendto`, `sendmsg`, `sendmmsg`), and named
    pipes, which Landlock keeps in.
    """
    place = str(cell.folder / "private" / "service")
    code = f"""
        import array, os, socket
        PLACE = {place!r}
        secret = os.open("../library/file", os.O_RDONLY)
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [secret]))]
        ways = {{
            "sendto": lambda end: end.sendto(b"STOLEN", PLACE),
            "sendmsg": lambda end: end.sendmsg([b"STOLEN"], rights, 0, PLACE),
            "connect": lambda end: (end.connect(PLACE), end.send(b"STOLEN")),
            "bind": lambda end: (end.bind("mine"), end.listen(), end.accept()),
        }}
        for kind in (1, 2, 3, 5):
            for family in (socket.AF_UNIX, socket.AF_INET):
                for way, attempt in ways.items():
                    try:
                        if family == 1:
                            ends = socket.socketpair(family, kind)
                        else:
                            ends = [socket.socket(family, kind)]
                    except OSError:
                        continue
                    ends[0].settimeout(1)
                    try:
                        attempt(ends[0])
                        print("sent", kind, way)
                    except (OSError, TypeError):
                        pass
                    # Its other end closed, a stream is still no way to another place.
                    ends[-1].close()
                    try:
                        attempt(ends[0])
                        print("sent", kind, way)
                    except (OSError, TypeError):
                        pass
    """
    services = []
    for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM, socket.SOCK_SEQPACKET):
        with contextlib.suppress(OSError):
            os.unlink(place)  # noqa: PTH108 - the loop may not wait for pathlib
        service = socket.socket(socket.AF_UNIX, kind)
        service.bind(place)
        service.setblocking(False)
        if kind != socket.SOCK_DGRAM:
            service.listen()
        services.append(service)
        assert await cell.python(code, network=network) == ""
        with pytest.raises(BlockingIOError):
            service.recv(100) if kind == socket.SOCK_DGRAM else service.accept()
    for service in services:
        service.close()


async def test_no_memory_or_queue_of_others(cell: Cell) -> None:
    """System V memory, semaphores and queues need only a number; a script has none that work."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.shmat.restype = ctypes.c_void_p
    ids = (libc.shmget(0, 4096, 0o600), libc.semget(0, 1, 0o600), libc.msgget(0, 0o600))
    assert -1 not in ids
    memory = libc.shmat(ids[0], None, 0)
    queue = f"/{cell.tag}".encode()
    opened = libc.mq_open(queue, os.O_CREAT | os.O_RDWR, 0o600, None)
    ctypes.memmove(memory, b"SECRET", 6)
    code = f"""
        import ctypes
        libc = ctypes.CDLL(None, use_errno=True)
        libc.shmat.restype = ctypes.c_void_p
        memory, semaphores, messages = {ids}
        def errors(*attempts):
            for attempt in attempts:
                ctypes.set_errno(0)
                result = attempt()
                yield result in (-1, 2**64 - 1) and ctypes.get_errno()
        print(*errors(
            lambda: libc.shmat(memory, None, 0), lambda: libc.shmctl(memory, 0, None),
            lambda: libc.shmdt(None), lambda: libc.semop(semaphores, b"\\0\\0\\1\\0\\0\\0", 1),
            lambda: libc.semctl(semaphores, 0, 16, 7), lambda: libc.semctl(semaphores, 0, 0),
            lambda: libc.msgsnd(messages, b"\\1" + bytes(15), 4, 0),
            lambda: libc.msgrcv(messages, bytes(64), 4, 0, 2048),
            lambda: libc.msgctl(messages, 0, 0),
            lambda: libc.mq_unlink({queue!r}), lambda: libc.mq_open({queue!r}, 2),
        ))
    """
    try:
        assert set((await cell.python(code, network=True)).split()) <= {"1", "13"}
        assert ctypes.string_at(memory, 6) == b"SECRET"
        assert libc.semctl(ids[1], 0, 12) == 0  # its value
        assert libc.mq_unlink(queue) == 0
    finally:
        libc.shmdt(ctypes.c_void_p(memory))
        libc.close(opened)
        for end, number in zip((libc.shmctl, libc.semctl, libc.msgctl), ids, strict=True):
            end(number, 0, 0)
