"""A command whose reader has gone learns it, once."""

import asyncio
import os
import sys

import pytest

from tool_engine.cli.stdout_reader import reader_watched


async def test_a_reader_that_has_gone_is_told_of_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is being closed then is not interrupted a second time, however long it takes."""
    reader, writer = os.pipe()
    told: list[int] = []
    is_told = asyncio.Event()

    def gone() -> None:
        told.append(1)
        is_told.set()

    with os.fdopen(writer, "w", encoding="utf-8") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        with reader_watched(gone):
            os.close(reader)
            await asyncio.wait_for(is_told.wait(), 20)
            for _ in range(20):
                await asyncio.sleep(0)
    assert told == [1]
