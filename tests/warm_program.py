"""What does a program that is to start at once run? See `tests.warm.python`.

It asks the process that has imported the package for a fork, which gets its streams, its folder and
its environment; passes on signals, ends with the fork's exit code, and the fork ends with it. It is
run by `python -I -S`, and imports little.
"""

import json
import os
import signal
import socket
import sys


def main() -> None:
    """Starts the program that the words name, and stays until it has ended."""
    address, imports, *words = sys.argv[1:]
    reads, ended = os.pipe()
    order = {
        "words": words,
        "cwd": os.getcwd(),  # noqa: PTH109 - pathlib takes as long as all the rest
        "env": dict(os.environ),
        "imports": imports.split(",") if imports else [],
        "ends_with_asker": True,
    }
    data = json.dumps(order).encode()
    # Before it is there, one that comes would end this process and leave the program alone.
    passed_on = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    signal.pthread_sigmask(signal.SIG_BLOCK, passed_on)
    asked = socket.socket(socket.AF_UNIX)
    asked.connect(address)
    socket.send_fds(asked, [len(data).to_bytes(4, "big")], [0, 1, 2, ended])
    asked.sendall(data)
    pid = int.from_bytes(asked.recv(4, socket.MSG_WAITALL), "big")
    for number in (0, 1, 2, ended):
        os.close(number)
    for each in passed_on:
        signal.signal(each, lambda number, _: os.kill(pid, number))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, passed_on)
    code = int((os.read(reads, 100).split() or [b"-9"])[0])
    if code < 0:
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        if -code not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


main()
