"""Real lock files: written whole, read strictly, and never silently open."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tool_engine import LockFileError, Tool, ToolConfigLoader, ToolNotFoundError
from tool_engine.catalog.approval.approvals import Approvals
from tool_engine.catalog.approval.lock import LockedTool, ToolLock, content_hash, default_lock_file

DEFINITION: dict[str, Any] = {
    "name": "echo",
    "version": "1.0.0",
    "description": "Says it again.",
    "parameters": [{"name": "text", "type": "string", "description": "What"}],
    "entry": {"type": "builtin", "handler": "echo"},
}
SOME_HASH = "sha256:" + "0123456789abcdef" * 4


def tool(**keys: Any) -> Tool:
    return ToolConfigLoader().from_mapping({**DEFINITION, **keys})


def locked(name: str = "echo", **keys: Any) -> LockedTool:
    return LockedTool(name, **{"version": "1.0.0", "definition": SOME_HASH, **keys})


@pytest.fixture
def file(tmp_path: Path) -> str:
    return str(tmp_path / "tools.lock")


def test_one_line_per_tool(file: str) -> None:
    """The file is for reviews: sorted by name, one line each, the same text for the same tools."""
    tools = [locked("zebra"), locked("ant", handler=SOME_HASH), locked("b.c")]
    ToolLock(tools, file=file).write()
    text = Path(file).read_text(encoding="utf-8")
    assert text.splitlines()[2:] == [
        "format = 1",
        "",
        "[tools]",
        f'ant = {{ version = "1.0.0", definition = "{SOME_HASH}", handler = "{SOME_HASH}" }}',
        f'"b.c" = {{ version = "1.0.0", definition = "{SOME_HASH}" }}',
        f'zebra = {{ version = "1.0.0", definition = "{SOME_HASH}" }}',
    ]
    ToolLock(reversed(tools), file=file).write()
    assert Path(file).read_text(encoding="utf-8") == text
    assert ToolLock.read(file).tools == {each.name: each for each in tools}


@given(version=st.text(st.characters(codec="utf-8"), min_size=1))
def test_any_version_comes_back(version: str) -> None:
    """A version is any text; whatever is in it, the file reads as it was written."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        lock = ToolLock([locked(version=version)], file=f"{folder}/x.lock")
        lock.write()
        assert ToolLock.read(lock.file).tools == lock.tools


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "format is None"),
        ("format = 2\n", "format is 2; this engine reads 1"),
        ("format = true\n", "format is True"),
        (
            "format = 1\nother = 1\n",
            "it has format, [tools], [groups] and [servers], and nothing else",
        ),
        (
            "format = 1\ntools = 3\n",
            "it has format, [tools], [groups] and [servers], and nothing else",
        ),
        ("format = 1\n[tools]\necho = 1\n", "the line of 'echo'"),
        (f'format = 1\n[tools]\necho = {{ definition = "{SOME_HASH}" }}\n', "the line of 'echo'"),
        (
            f'format = 1\n[tools]\necho = {{ version = 1, definition = "{SOME_HASH}" }}\n',
            "the line of 'echo'",
        ),
        (
            f'format = 1\n[tools]\necho = {{ version = "1", definition = "{SOME_HASH}", x = "" }}',
            "the line of 'echo'",
        ),
        (
            'format = 1\n[tools]\necho = { version = "1", definition = "sha256:12" }\n',
            "definition of 'echo' is not sha256: and 64 digits",
        ),
        (
            f'format = 1\n[tools]\necho = {{version="1", definition="{SOME_HASH}", handler="x"}}\n',
            "handler of 'echo'",
        ),
        ("<<<<<<< HEAD\nformat = 1\n", "line 1"),
        ("format = 1\nformat = 1\n", "line 2"),
        (f"format = {'[' * 5000}", ""),
        ("format = 1\n[tools]\necho = { version = \x00", ""),
    ],
)
def test_a_broken_file_is_refused(file: str, text: str, why: str) -> None:
    """Whatever is not exactly a lock file is an error that names the file, the place, the cure."""
    Path(file).write_text(text, encoding="utf-8")
    with pytest.raises(LockFileError) as caught:
        ToolLock.read(file)
    assert str(caught.value).startswith(f"{file} is no lock file: ")
    assert why in str(caught.value)
    assert "tool-engine lock" in str(caught.value)


def test_a_cut_file_is_refused(file: str) -> None:
    """Wherever a copy of the file was cut off: it is refused, or holds fewer approvals."""
    lock = ToolLock([locked("a"), locked("b", handler=SOME_HASH)], file=file)
    data = lock.text().encode()
    for length in range(len(data)):
        Path(file).write_bytes(data[:length])
        try:
            found = ToolLock.read(file).tools
        except LockFileError:
            continue
        assert found.items() <= lock.tools.items()


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda path: None, "there is no lock file"),
        (lambda path: path.mkdir(), "is not a file"),
        (os.mkfifo, "is not a file"),
        (lambda path: path.symlink_to("missing"), "there is no lock file"),
        (lambda path: path.symlink_to(path.name), "cannot read"),
        (lambda path: path.write_bytes(b"\xff"), "it is not UTF-8 text (byte 0)"),
    ],
)
def test_a_file_that_cannot_be_read(file: str, make: Callable[[Path], None], why: str) -> None:
    """Missing, a folder, a pipe, a link to nowhere, no text: an error, and never a wait."""
    make(Path(file))
    with pytest.raises(LockFileError) as caught:
        ToolLock.read(file)
    assert why in str(caught.value)


def test_only_a_missing_file_may_be_started(file: str) -> None:
    """To approve the first tool needs no file; a broken one is not written over."""
    assert ToolLock.read_or_start(file).tools == {}
    Path(file).write_text("broken", encoding="utf-8")
    with pytest.raises(LockFileError):
        ToolLock.read_or_start(file)


def test_written_whole_or_not_at_all(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the disk is full half way, the file of before stays, and no draft is left."""
    ToolLock([locked("before")], file=file).write()

    def fail(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(LockFileError, match=r"cannot write .*tools\.lock: No space left"):
        ToolLock([locked("after")], file=file).write()
    assert list(ToolLock.read(file).tools) == ["before"]
    assert [path.name for path in Path(file).parent.iterdir()] == ["tools.lock"]


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    """Nothing is made up for a lock file in a folder that does not exist."""
    with pytest.raises(LockFileError, match="cannot write"):
        ToolLock(file=str(tmp_path / "missing" / "tools.lock")).write()


def test_links_and_modes_stay(tmp_path: Path, file: str) -> None:
    """A link to the lock file stays a link, and its permissions stay as somebody set them."""
    ToolLock(file=file).write()
    assert stat.S_IMODE(Path(file).stat().st_mode) == 0o644
    Path(file).chmod(0o640)
    link = tmp_path / "link.lock"
    link.symlink_to(file)
    ToolLock([locked()], file=str(link)).write()
    assert link.is_symlink()
    assert list(ToolLock.read(file).tools) == ["echo"]
    assert stat.S_IMODE(Path(file).stat().st_mode) == 0o640


@pytest.mark.parametrize(
    ("folder", "expected"),
    [("tools", "tools.lock"), ("a/tools/", "a/tools.lock"), ("/srv/tools", "/srv/tools.lock")],
)
def test_default_place(folder: str, expected: str) -> None:
    """The file lies beside the folder and is named after it."""
    assert default_lock_file(folder) == expected


def test_default_place_of_the_present_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`.` has a name too."""
    monkeypatch.chdir(tmp_path)
    assert default_lock_file(".") == f"{tmp_path}.lock"
    assert default_lock_file("..") == f"{tmp_path.parent}.lock"


@pytest.mark.parametrize(
    "keys",
    [
        {"version": "1.0.1"},
        {"description": "Says it once more."},
        {"entry": {"type": "http", "request": {"url": "https://a.example"}}},
        {"effect": "read"},
        {"timeout": 3},
        {"tags": ["x"]},
        {"concurrency": {"priority": 1}},
        {"parameters": []},
    ],
)
def test_every_edit_changes_the_hash(keys: dict[str, Any]) -> None:
    """Any key of the definition counts: its words steer models as much as its address."""
    assert content_hash(tool(**keys)) != content_hash(tool())


def test_what_does_not_change_the_hash() -> None:
    """Where the file lies, and keys that say what holds without them, change nothing."""
    same = [
        msgspec.structs.replace(tool(), source="other.yaml", findings=["x"]),
        msgspec.structs.replace(tool(), definition_hash="of another engine"),
        tool(status="published", idempotent=False, tags=[], concurrency={"priority": 5}),
    ]
    assert {content_hash(each) for each in same} == {content_hash(tool())}


def test_true_is_not_one() -> None:
    """Values that Python takes for equal are told apart."""
    entries = [{"type": "custom", "config": {"x": value}} for value in (1, True, 1.0)]
    assert len({content_hash(tool(entry=entry)) for entry in entries}) == 3


def test_the_hash_is_for_keeps() -> None:
    """A lock that somebody wrote is still right with the next engine; this hash never changes."""
    assert content_hash(tool()) == (
        "sha256:960ac82675f12de2526a6bf05ed2fd53a19664cdf36f166f9d4fe986f02f773a"
    )


# Approvals: the lock as an engine holds it.


def make(file: str, code: str | None = None) -> Approvals:
    return Approvals(file, lambda _: code, is_enforced=True)


def test_nothing_is_approved_before_the_file_was_read(file: str) -> None:
    """Closed from the start."""
    refusal = make(file).refusal(tool())
    assert refusal is not None
    assert (refusal.reason, refusal.name) == ("no_lock", "echo")


def test_reasons(file: str) -> None:
    """Each refusal has its reason, the approved version, and the command that cures it."""
    approvals = make(file)
    lock = approvals.with_approved(None, {"echo": tool()}, ["echo"])
    lock.write()
    approvals.read()
    assert approvals.refusal(tool()) is None
    changed = approvals.refusal(tool(version="1.1.0"))
    assert changed is not None
    assert (changed.reason, changed.approved_version) == ("changed", "1.0.0")
    assert "(version 1.1.0) is not the one that was approved (version 1.0.0)" in changed.message
    assert "`tool-engine lock --approve echo`" in changed.message
    new = approvals.refusal(tool(name="other"))
    assert new is not None
    assert (new.reason, new.approved_version) == ("new", None)
    Path(file).unlink()
    approvals.read()
    gone = approvals.refusal(tool())
    assert gone is not None
    assert gone.reason == "no_lock"
    assert "there is no lock file" in gone.message


@pytest.mark.parametrize(
    ("approved", "now", "reason"),
    [
        (SOME_HASH, SOME_HASH, None),
        (SOME_HASH, SOME_HASH[:-1] + "0", "handler_changed"),
        (SOME_HASH, "engine", "handler_changed"),
        (SOME_HASH, "unreadable", "handler_changed"),
        (SOME_HASH, None, None),
        (None, SOME_HASH, None),
        ("engine", SOME_HASH, None),
        ("unreadable", SOME_HASH, None),
    ],
)
def test_code_that_was_approved(
    file: str, approved: str | None, now: str | None, reason: str | None
) -> None:
    """Code counts where its approval was recorded; a tool that nothing runs yet can wait."""
    make(file, approved).with_approved(None, {"echo": tool()}, ["echo"]).write()
    approvals = make(file, now)
    approvals.read()
    refusal = approvals.refusal(tool())
    assert (None if refusal is None else refusal.reason) == reason


def test_approving(file: str) -> None:
    """Approving one leaves the others; a name without a file goes; an unknown one is an error."""
    approvals = make(file)
    tools = {name: tool(name=name) for name in ("a", "b")}
    approvals.with_approved(None, tools, ["a", "b"]).write()
    changed = {"a": tool(name="a", version="2.0.0")}
    lock = approvals.with_approved(approvals.known(), changed, ["a", "b"])
    assert {name: each.version for name, each in lock.tools.items()} == {"a": "2.0.0"}
    with pytest.raises(ToolNotFoundError, match="no file defines the tool 'zzz'"):
        approvals.with_approved(approvals.known(), tools, ["zzz"])


def test_the_same_file_is_parsed_once(file: str) -> None:
    """A look at a folder that nobody touched does not read ten thousand lines anew."""
    ToolLock([locked()], file=file).write()
    known = ToolLock.read(file)
    assert ToolLock.read(file, known) is known
    ToolLock([locked("other")], file=file).write()
    assert list(ToolLock.read(file, known).tools) == ["other"]


def test_reprs(file: str) -> None:
    """A lock shows where it is kept and what state it is in."""
    assert repr(ToolLock([locked()], file=file)) == f"ToolLock({file!r}, 1 tools)"
    assert "was not read yet" in repr(make(file))


def test_a_lock_that_nobody_enforces_is_not_looked_at(file: str) -> None:
    """Without `lock: enforce` a broken file is nobody's business."""
    Path(file).write_text("broken", encoding="utf-8")
    approvals = Approvals(file, lambda _: None, is_enforced=False)
    approvals.read()
    assert approvals.refusal(tool()) is None
    assert approvals.problem is None
