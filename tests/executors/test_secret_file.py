"""`${file:/path}`: what a file may hold, and what its error says."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from tool_engine.errors import ToolExecutionError
from tool_engine.executors.secrets import (
    MAX_SECRET_BYTES,
    SecretPart,
    SecretScope,
    read_secret_file,
)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"key\n", "key"),
        (b"key\r\n\n", "key"),
        (b" key ", " key "),
        ("schlüssel".encode(), "schlüssel"),
        (b"a\nb\n", "a\nb"),
        (b"x" * MAX_SECRET_BYTES, "x" * MAX_SECRET_BYTES),
    ],
)
def test_text(tmp_path: Path, data: bytes, text: str) -> None:
    """Line breaks at the end belong to the file, all else to the secret."""
    file = tmp_path / "key"
    file.write_bytes(data)
    assert read_secret_file(str(file)) == text


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "is empty"),
        (b"\n\r\n", "is empty"),
        (b"x" * (MAX_SECRET_BYTES + 1), "is larger than 65536 bytes"),
        (b"\xff\xfe", "is not text in UTF-8"),
        (b"k\x00y", "is not text in UTF-8"),
    ],
)
def test_what_is_no_secret(tmp_path: Path, data: bytes, reason: str) -> None:
    """The error names the file and the cure, and nothing of what is in it."""
    file = tmp_path / "key"
    file.write_bytes(data)
    with pytest.raises(
        ToolExecutionError, match=f"the secret file {file} {reason}; the tool needs"
    ):
        read_secret_file(str(file))


def test_what_is_no_file(tmp_path: Path) -> None:
    """A folder, a pipe that nobody writes to, a device: an error at once."""
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe", Path("/dev/zero"), tmp_path / "none"):
        with pytest.raises(ToolExecutionError, match=f"the secret file {path} cannot be read"):
            read_secret_file(str(path))


def test_a_link(tmp_path: Path) -> None:
    """Containers mount their secrets as links, which change all at once."""
    (tmp_path / "v1").write_text("one")
    (tmp_path / "key").symlink_to("v1")
    assert read_secret_file(str(tmp_path / "key")) == "one"


async def test_files_are_read_once_for_each_call(tmp_path: Path) -> None:
    """What was read in the thread is what the whole call uses."""
    file = tmp_path / "key"
    file.write_text("first-1")
    part, scope = SecretPart(str(file), "file"), SecretScope()
    await scope.read_files([part, SecretPart("PATH")])
    file.write_text("second-2")
    assert scope.resolve(part) == "first-1"
    assert scope.hide("a first-1") == "a [hidden]"
    # In a thread of its own nobody needs to read ahead.
    assert await asyncio.to_thread(SecretScope().resolve, part) == "second-2"


def test_a_byte_order_mark_is_no_part_of_the_secret(tmp_path: Path) -> None:
    """Some editors put one at the start of a file, and no server knows the key with it."""
    file = tmp_path / "key"
    file.write_bytes(b"\xef\xbb\xbfmade-up-key\r\n")
    assert read_secret_file(str(file)) == "made-up-key"
