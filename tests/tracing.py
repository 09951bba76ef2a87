"""How much of each test is traced for coverage?

A test that goes on for long passes the same lines again, and tracing makes each of them up to ten
times as slow: it is traced as long as it is likely to reach new ones.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic

from coverage import Coverage

TRACED = 1.0
"""Seconds of each test."""


class _Stopper:
    """The one thread that ends tracing; it never ends, because tests count the threads."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._coverage: Coverage | None = None
        self._ends = 0.0
        threading.Thread(target=self._run, name="tracing", daemon=True).start()

    def begin(self, coverage: Coverage, seconds: float) -> None:
        with self._changed:
            self._coverage, self._ends = coverage, monotonic() + seconds
            self._changed.notify()

    def end(self) -> bool:
        """Whether tracing is still on."""
        with self._changed:
            is_on = self._coverage is not None
            self._coverage = None
            return is_on

    def _run(self) -> None:
        with self._changed:
            while True:
                if self._coverage is None:
                    self._changed.wait()
                elif (left := self._ends - monotonic()) > 0:
                    self._changed.wait(left)
                else:
                    self._coverage.stop()
                    self._coverage = None


_STOPPER = _Stopper()  # before the first test counts


@contextmanager
def traced_at_first(seconds: float = TRACED) -> Iterator[None]:
    """Ends the tracing of what runs within after so long, and goes on with it afterwards."""
    coverage = Coverage.current()
    if coverage is None:
        yield
        return
    _STOPPER.begin(coverage, seconds)
    try:
        yield
    finally:
        if not _STOPPER.end():
            coverage.start()
