"""A key stands for a time and a record."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from tool_engine.knowledge.sql.schema.keys import (
    KEY_STEP,
    KeyMaker,
    date_of,
    key_of_id,
    key_of_time,
    microseconds_of,
    record_id_of,
)


@given(st.integers(-(2**63), 2**63 - 1))
def test_id_and_back(key: int) -> None:
    """K41: a key gives an id that reads as a UUID, and the id gives the key."""
    record_id = record_id_of(key)
    assert str(uuid.UUID(record_id)) == record_id
    assert key_of_id(record_id) == key


@given(st.one_of(st.text(), st.uuids().map(str)))
def test_ids_made_elsewhere(record_id: str) -> None:
    """Other ids are nobody's key."""
    assert key_of_id(record_id) is None


@given(st.datetimes(timezones=st.just(UTC)))
def test_time_and_back(date: datetime) -> None:
    """A time is kept to the microsecond, and its key is one that a database can hold."""
    assert date_of(microseconds_of(date)) == date
    assert -(2**63) < key_of_time(microseconds_of(date)) < 2**63


@given(st.lists(st.integers(0, 2_000_000), max_size=50))
def test_keys_are_unique_and_in_order(times: list[int]) -> None:
    """Within some seconds keys go up in the order of the calls, whatever their clock says."""
    maker = KeyMaker()
    start = microseconds_of(datetime(2026, 1, 1, tzinfo=UTC))
    keys = [maker.key(start + each) for each in times]
    assert keys == sorted(set(keys))


def test_clock_set_back_by_an_hour() -> None:
    """Much earlier is earlier."""
    maker = KeyMaker()
    now = microseconds_of(datetime(2026, 1, 1, tzinfo=UTC))
    late = maker.key(now)
    early = maker.key(now - timedelta(hours=1) // timedelta(microseconds=1))
    assert early < late - KEY_STEP * 1_000_000
