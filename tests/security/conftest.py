"""What holds for every attack: the garbage of other tests holds nothing up."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _only_own_garbage() -> Iterator[None]:
    """A full collection looks at what this test made, not at what thousands left before it."""
    gc.freeze()
    yield
    gc.unfreeze()
