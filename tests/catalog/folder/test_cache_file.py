"""Is a cache file believed only when it is whole, of the present rules, and nobody else's?"""

from __future__ import annotations

import hashlib
import importlib.metadata
import math
import os
import pickle
import shutil
import stat
import time
from pathlib import Path

import msgspec
import pytest

from tool_engine.catalog.folder import cache_file
from tool_engine.catalog.folder.cache_file import (
    MAX_FILES,
    SUFFIX,
    read_cache,
    rules_version,
    write_cache,
)

ENTRIES = {b"key": b"entry", b"other": bytes(range(256))}


@pytest.fixture(autouse=True)
def _same_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who edits the package while its tests run has other rules from then on."""
    monkeypatch.setattr(cache_file, "rules_version", lambda: b"r" * 32)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "cache" / f"x{SUFFIX}"
    write_cache(path, ENTRIES)
    return path


def test_it_comes_back(file: Path) -> None:
    """What was written is read; the directory and the file are the user's own."""
    assert read_cache(file) == ENTRIES
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert list(file.parent.iterdir()) == [file]


def test_nothing_there(tmp_path: Path) -> None:
    """A cache that is not there has no entries."""
    assert read_cache(tmp_path / "none" / f"x{SUFFIX}") == {}


def test_each_bit_counts(file: Path) -> None:
    """Issue 4, 5: a file with one bit changed, wherever, counts as none."""
    sound = file.read_bytes()
    for at in range(0, len(sound), 3):
        file.write_bytes(sound[:at] + bytes([sound[at] ^ 1 << at % 8]) + sound[at + 1 :])
        assert read_cache(file) == {}
    file.write_bytes(sound)
    assert read_cache(file) == ENTRIES


def test_each_length_counts(file: Path) -> None:
    """Issue 4, 5: a file that was cut anywhere, or grew, counts as none."""
    sound = file.read_bytes()
    for end in range(0, len(sound), 7):
        file.write_bytes(sound[:end])
        assert read_cache(file) == {}
    file.write_bytes(sound + b"\0")
    assert read_cache(file) == {}


@pytest.mark.parametrize(
    "body", [pickle.dumps(ENTRIES), b"[]", b"\x81\xa1k\xa1v", b"\x81\xc4\x01k"]
)
def test_a_stranger_who_can_count(file: Path, body: bytes) -> None:
    """What is no mapping of bytes counts as none though its checksum is right."""
    start = len(file.read_bytes()) - len(msgspec.msgpack.encode(ENTRIES)) - 32
    head = file.read_bytes()[:start]
    file.write_bytes(head + hashlib.sha256(body).digest() + body)
    assert read_cache(file) == {}
    body = msgspec.msgpack.encode({b"k": b"v"})
    file.write_bytes(head + hashlib.sha256(body).digest() + body)
    assert read_cache(file) == {b"k": b"v"}


def test_other_rules(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Issue 4, 5: what other rules made counts as none, and is replaced."""
    monkeypatch.setattr(cache_file, "rules_version", lambda: b"2" * 32)
    assert read_cache(file) == {}
    write_cache(file, ENTRIES)
    assert read_cache(file) == ENTRIES
    monkeypatch.setattr(cache_file, "rules_version", lambda: b"r" * 32)
    assert read_cache(file) == {}


def copied_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    package = tmp_path / "package"
    source = cache_file._PACKAGE
    for name in ("catalog", "executors", "model"):
        shutil.copytree(source / name, package / name)
    shutil.copy(source / "errors.py", package)
    monkeypatch.setattr(cache_file, "_PACKAGE", package)
    monkeypatch.setattr(cache_file, "_LOADED_AT", math.inf)
    rules_version.cache_clear()
    return package


@pytest.mark.parametrize(
    "name",
    [
        "catalog/definition/rules.py",
        "catalog/definition.schema.json",
        "executors/http/http_entry.py",
        "executors/files/file_entry.py",
        "model/tool.py",
        "errors.py",
    ],
)
def test_changed_rules_are_other_rules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Issue 4, 5: no verdict outlives a change of what decides on it: our code and its data."""
    package = copied_package(tmp_path, monkeypatch)
    before = rules_version()
    rules_version.cache_clear()
    assert rules_version() == before
    with (package / name).open("a", encoding="utf-8") as file:
        file.write(" ")
    rules_version.cache_clear()
    assert rules_version() != before
    rules_version.cache_clear()


def test_rules_that_are_not_ours(
    tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Issue 4, 5: a process whose package is installed anew under it keeps to no cache: it would
    write down old verdicts under the name of the new rules."""
    copied_package(tmp_path, monkeypatch)
    monkeypatch.setattr(cache_file, "_LOADED_AT", time.time() - 60)
    monkeypatch.setattr(cache_file, "rules_version", rules_version)
    before = file.read_bytes()
    write_cache(file, {})
    assert read_cache(file) == {}
    assert file.read_bytes() == before
    rules_version.cache_clear()


def test_other_libraries_are_other_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    """Issue 4, 5: nor does it outlive a new version of a library that decides with us."""
    monkeypatch.setattr(cache_file, "_LOADED_AT", math.inf)
    rules_version.cache_clear()
    seen = {rules_version()}
    original = importlib.metadata.version
    for library in ("PyYAML", "jsonschema", "jsonschema-rs", "msgspec"):
        monkeypatch.setattr(
            importlib.metadata,
            "version",
            lambda name, new=library: "99" if name == new else original(name),
        )
        rules_version.cache_clear()
        seen.add(rules_version())
    assert len(seen) == 5
    rules_version.cache_clear()


def test_unknown_rules(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who cannot tell the rules has no cache, and nothing breaks."""

    def unknown(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", unknown)
    monkeypatch.setattr(cache_file, "rules_version", rules_version)
    rules_version.cache_clear()
    before = file.read_bytes()
    assert read_cache(file) == {}
    write_cache(file, {})
    monkeypatch.undo()
    rules_version.cache_clear()
    assert file.read_bytes() == before


@pytest.mark.skipif(os.name != "posix", reason="other systems have other permissions")
@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_writable_by_others(file: Path, mode: int) -> None:
    """A file that others may write could say anything: it counts as none."""
    file.chmod(mode)
    assert read_cache(file) == {}
    file.chmod(0o644)
    assert read_cache(file) == ENTRIES


@pytest.mark.skipif(os.name != "posix", reason="other systems have other owners")
def test_somebody_elses(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of another user counts as none."""
    monkeypatch.setattr(os, "geteuid", lambda: file.stat().st_uid + 1)
    assert read_cache(file) == {}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="other systems have no named pipes")
def test_no_file(file: Path) -> None:
    """What is no file counts as none, and nobody waits for it."""
    file.unlink()
    os.mkfifo(file)
    assert read_cache(file) == {}
    file.unlink()
    file.mkdir()
    assert read_cache(file) == {}


def test_size_is_bounded(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Issue 4, 5: what does not fit is not kept, and a file that is too large is not read."""
    monkeypatch.setattr(cache_file, "MAX_SIZE", 1000)
    write_cache(file, {bytes([number]) * 32: b"x" * 100 for number in range(20)})
    kept = read_cache(file)
    assert 3 < len(kept) < 10
    assert file.stat().st_size <= 1000
    monkeypatch.setattr(cache_file, "MAX_SIZE", 100)
    assert read_cache(file) == {}


def test_the_oldest_files_go(file: Path) -> None:
    """Issue 4, 5: a directory holds a bounded number of files; those used last stay."""
    others = [file.with_name(f"{number}{SUFFIX}") for number in range(MAX_FILES + 3)]
    for age, path in enumerate([file, *others]):
        path.write_bytes(file.read_bytes())
        path.chmod(0o600)
        os.utime(path, (1000 + age, 1000 + age))
    assert read_cache(others[1]) == ENTRIES
    write_cache(file, ENTRIES)
    left = set(file.parent.iterdir())
    assert len(left) == MAX_FILES
    assert {file, others[1], others[-1]} < left
    assert others[0] not in left


def test_what_killed_writers_left(file: Path) -> None:
    """A half-written file is removed when its writer cannot live any more; others' files stay."""
    now = time.time()
    old, young, foreign = (file.with_name(name) for name in ("a.partial", "b.partial", "notes"))
    for path, age in ((old, 7200), (young, 60), (foreign, 10**6)):
        path.write_bytes(b"")
        os.utime(path, (now - age, now - age))
    write_cache(file, ENTRIES)
    assert set(file.parent.iterdir()) == {file, young, foreign}


def test_a_disk_that_is_full(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be written leaves the old file as it was, and nothing beside it."""

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    write_cache(file, {})
    assert read_cache(file) == ENTRIES
    assert list(file.parent.iterdir()) == [file]


def test_trimmed_by_two(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process may remove a file between our look and our touch."""
    gone = file.with_name(f"gone{SUFFIX}")
    original = Path.iterdir
    monkeypatch.setattr(Path, "iterdir", lambda path: [*original(path), gone])
    write_cache(file, {})
    assert read_cache(file) == {}
    assert file.exists()
