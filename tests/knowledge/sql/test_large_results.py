"""Large results are kept once, packed, without secrets, and read as they were."""

from __future__ import annotations

import sqlite3
import zlib
from contextlib import closing
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.knowledge.sql.conftest import BOUND, Open, ask_file, call
from tool_engine.model.record import RecordQuery


async def test_large_results_are_kept_once(database: Path, open_storage: Open) -> None:
    """A large result is compressed, and stored once however many calls return it."""
    storage = await open_storage(database)
    large = {"rows": [{"name": "the same again", "at": at} for at in range(1_000)]}
    for number in range(20):
        storage.add(call(number, output=large))
    assert await storage.flush(BOUND)
    records = await storage.query(RecordQuery())
    assert [record.result for record in records] == [large] * 20
    ((count, size, stored),) = ask_file(
        database, "SELECT count(*), max(size), max(length(data)) FROM tool_values"
    )
    assert count == 1
    assert stored < size / 4


async def test_large_result_of_a_former_version(database: Path, open_storage: Open) -> None:
    """Results that were kept as JSON are read as before."""
    storage = await open_storage(database)
    large = {"rows": [{"name": "the same again", "at": at} for at in range(1_000)]}
    storage.add(call(1, output=large))
    assert await storage.flush(BOUND)
    text = msgspec.json.encode(large)
    digest = blake2b(text, digest_size=16).digest()
    with closing(sqlite3.connect(database)) as connection, connection:
        written = zlib.compress(text, 1)
        connection.execute("UPDATE tool_values SET hash = ?, data = ?", (digest, written))
        connection.execute("UPDATE tool_calls SET result_hash = ?", (digest,))
    (record,) = await storage.query(RecordQuery())
    assert record.result == large


async def test_large_values_that_json_cannot_hold(database: Path, open_storage: Open) -> None:
    """A large result is read in the documented form of each value, as from memory."""
    storage = await open_storage(database)
    odd = {"nan": float("nan"), "bytes": b"\xff", "text": "x" * 5_000, "large": 2**64 - 1}
    storage.add(call(1, output=odd))
    assert await storage.flush(BOUND)
    (record,) = await storage.query(RecordQuery())
    assert record.result == {**odd, "nan": "NaN", "bytes": "b'\\xff'"}


@pytest.mark.parametrize(
    "rows", [[["Authorization", "canary-pair"]], [{"password": "canary-pair"}]]
)
async def test_no_secret_of_a_large_result_is_written(
    rows: list[Any], database: Path, open_storage: Open
) -> None:
    """Secrets are hidden before anything is written, also beside five thousand other values."""
    storage = await open_storage(database)
    storage.add(call(1, output={"rows": [{"at": at} for at in range(5_000)] + rows}))
    assert await storage.flush(BOUND)
    ((data,),) = ask_file(database, "SELECT data FROM tool_values")
    assert b"canary-pair" not in zlib.decompress(data)
