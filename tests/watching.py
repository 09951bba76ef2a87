"""How does a test that hangs end, without a thread for each test?

`pytest-timeout` starts one and waits for its end: a fifth of what a short test costs. Here one
thread looks every second whether the running test is past its time.
"""

from __future__ import annotations

import threading
import time
from time import monotonic
from typing import Any

import pytest
from pytest_timeout import timeout_timer  # type: ignore[import-untyped]

__all__ = ["Watch"]

_pause = time.sleep  # tests replace it
PERIOD = 1.0


class Watch:
    """The one thread that ends the process of a test that hangs; it never ends itself."""

    def __init__(self) -> None:
        self._watched: tuple[float, pytest.Item, Any] | None = None
        threading.Thread(target=self._run, name="watching", daemon=True).start()

    def begin(self, item: pytest.Item, settings: Any) -> None:
        """Watches a test from now on: `settings` are those of pytest-timeout."""
        self._watched = (monotonic() + settings.timeout, item, settings)

    def end(self) -> bool:
        """Forgets the test that was watched; whether there was one."""
        watched, self._watched = self._watched, None
        return watched is not None

    def _run(self) -> None:
        while True:
            _pause(PERIOD)
            watched = self._watched
            if watched is not None and monotonic() > watched[0]:
                timeout_timer(*watched[1:])  # writes where every thread is, and ends the process
                self._watched = None  # only where a debugger runs
