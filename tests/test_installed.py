"""Tests of what packages offer: found when it is there, read once while nothing changes."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
from pathlib import Path

import pytest

from tool_engine.installed import list_entry_points


def install(site: Path, name: str) -> Path:
    """Puts a package there that offers a thing of its name; returns its metadata."""
    info = site / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[things]\n{name} = {name}:Thing\n")
    return info


def test_packages_that_come_and_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is offered from its installation on, and no more once it is gone."""

    def names() -> list[str]:
        return sorted(each.name for each in list_entry_points("things"))

    reads: list[str] = []
    read = importlib.metadata.entry_points

    def count(*, group: str) -> object:
        reads.append(group)
        return read(group=group)

    monkeypatch.setattr(importlib.metadata, "entry_points", count)
    assert names() == []
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    install(one, "first")
    monkeypatch.syspath_prepend(str(one))
    assert names() == ["first"]
    monkeypatch.syspath_prepend(str(two))  # it comes later
    assert names() == ["first"]
    two.mkdir()
    second = install(two, "second")
    os.utime(two, (0, 0))  # whatever changes it after this, however soon, is later
    assert names() == ["first", "second"]
    read_before = len(reads)
    assert names() == ["first", "second"]
    assert len(reads) == read_before
    shutil.rmtree(second)
    assert names() == ["first"]
