"""Is each test traced at first only, and the next one again?"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

SUBJECT = """
def early():
    return "early"

def late():
    return "late"

def next_one():
    return "next"

def in_thread():
    return "in a thread"
"""

RUN = """
import json, sys, threading, time
from coverage import Coverage
from tests.tracing import traced_at_first

coverage = Coverage(branch=True, data_file=None, include=["*/subject.py"], config_file=False)
coverage.start()
import subject
with traced_at_first(0.5):
    subject.early()
    while Coverage.current() is not None:
        time.sleep(0.001)
    subject.late()
with traced_at_first(60):
    subject.next_one()
    thread = threading.Thread(target=subject.in_thread)
    thread.start()
    thread.join()
coverage.stop()
_, lines, _, missing, _ = coverage.analysis2(subject)
print(json.dumps(missing))
"""


def test_traced_at_first(tmp_path: Path) -> None:
    """What a long test does late is not traced; the next test is, and so are its threads."""
    (tmp_path / "subject.py").write_text(SUBJECT)
    (tmp_path / "run.py").write_text(RUN)
    done = subprocess.run(
        [sys.executable, str(tmp_path / "run.py")],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "error"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert not done.returncode, done.stderr
    late = SUBJECT.splitlines().index('    return "late"') + 1
    assert json.loads(done.stdout) == [late]
