"""Is a program of `tests/warm.py` what a new one is?"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests import warm
from tests.warm import ADDRESS, Program, Server, run

TELLS = """
import json, os, sys
print(json.dumps({
    "argv": sys.argv, "cwd": os.getcwd(), "env": os.environ.get("SAID"), "name": __name__,
    "stdin": sys.stdin.read(),
    "encodings": [sys.stdin.encoding, sys.stdout.errors, sys.stderr.errors],
    "open": sorted(os.listdir("/proc/self/fd"))[:3], "path": sys.path[0],
}))
print("é\\ud800", file=sys.stderr)
sys.exit(7)
"""


@pytest.mark.parametrize("text", ["", "a\nb", "x" * 200_000])
def test_says_what_a_new_one_says(tmp_path: Path, text: str) -> None:
    """Words, folder, environment, streams and exit code are those of an own interpreter."""
    words, env = ["-c", TELLS, "a", "b c"], {**os.environ, "SAID": "yes"}
    warm = run(words, cwd=tmp_path, env=env, stdin=text)
    new = subprocess.run(
        [sys.executable, *words],
        cwd=tmp_path,
        env=env,
        input=text,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (warm.returncode, warm.stderr) == (new.returncode, new.stderr) == (7, "é\\ud800\n")
    assert json.loads(warm.stdout) == json.loads(new.stdout)


def test_signals_and_the_end(tmp_path: Path) -> None:
    """A signal ends it; its exit code says which; what runs at its exit has run."""
    code = "import atexit, time; atexit.register(print, 'left'); print('up', flush=True); {}"
    with Program(["-c", code.format("time.sleep(60)")], cwd=tmp_path) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == b"up\n"
        assert program.poll() is None
        program.send_signal(signal.SIGINT)
        out, err = program.communicate()
        assert (program.wait(), out) == (-signal.SIGINT, b"left\n")
        assert b"KeyboardInterrupt" in err
    with Program(["-c", code.format("time.sleep(60)")], cwd=tmp_path) as program:
        program.kill()
        assert program.wait() == -signal.SIGKILL
    assert run(["-c", "raise SystemExit(3)"]).returncode == 3


def test_they_share_nothing(tmp_path: Path) -> None:
    """What one program changes of the package, of the environment or the folder is its own."""
    change = "import os, tool_engine; tool_engine.changed = 1; os.environ['CHANGED'] = '1'"
    look = "import os, tool_engine; print(hasattr(tool_engine, 'changed'), 'CHANGED' in os.environ)"
    assert run(["-c", change]).returncode == 0
    assert run(["-c", look], cwd=tmp_path).stdout == "False False\n"


def test_what_it_opens_stays_open() -> None:
    """Nothing of the process that forked closes a file that has the number of one of its own."""
    code = "import gc, os; made = os.pipe(); gc.collect(); print(*map(os.get_blocking, made))"
    assert run(["-c", code]).stdout == "True True\n"


def test_one_for_a_whole_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who knows its address asks it, as long as it likes; it ends with the last of them."""
    server = Server(tmp_path / "warm")
    monkeypatch.setenv(ADDRESS, str(tmp_path / "warm"))
    monkeypatch.setattr(warm, "_servers", {})
    parent = int(run(["-c", "import os; print(os.getppid())"]).stdout)
    asks = "from tests.warm import run; print(run(['-c', 'import os; print(os.getppid())']).stdout)"
    assert int(run(["-c", asks], cwd=warm.ROOT).stdout) == parent
    assert Path(f"/proc/{parent}").exists()
    warm._server().close()
    server.close()
    assert not Path(f"/proc/{parent}").exists()


@pytest.mark.parametrize(
    "code",
    [
        "print('a', end='')",
        "import atexit; atexit.register(print, 'left')",
        "import threading, time; threading.Timer(0.1, print, ['late']).start()",
        "import concurrent.futures as c; c.ThreadPoolExecutor().submit(print, 'pooled')",
        "class A:\n    def __del__(self): print('freed')\na = A(); a.itself = a",
        "class A:\n    def __del__(self): print('freed')\na = A()",
        "import logging; logging.warning('said')",
        "raise SystemExit('a reason')",
        "raise SystemExit(300)",
        "raise SystemExit(-1)",
        "raise SystemExit(None)",
        "raise SystemExit(True)",
        "import sys; sys.stdout.close()",
    ],
)
def test_it_ends_as_a_new_one_ends(tmp_path: Path, code: str) -> None:
    """What waits for the end of a program has its turn, but for what modules hold."""
    warm = run(["-c", code], cwd=tmp_path)
    new = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (warm.returncode, warm.stdout) == (new.returncode, new.stdout)
    assert warm.stderr.replace("encoding='utf-8'", "") == new.stderr.replace("encoding='utf-8'", "")
