"""Can a hostile path, file or neighbour turn the file tools against their owner?

Every test is an attack that runs against real files. `outside` is a folder beside the root that no
call may read or change a byte of.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import shutil
import socket
import stat
import subprocess
import sys
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.effort import share_of
from tool_engine import ToolConfigLoader
from tool_engine.errors import ToolExecutionError
from tool_engine.executors.executor_registry import BUILTIN_EXECUTORS
from tool_engine.model.call import ToolExecutionContext
from tool_engine.model.tool import Tool

TOOLS = Path(__file__).parents[2] / "tools"
HANDLERS = ("read_file", "write_file", "edit_file", "read_folder", "search_files")
SECRET = "TOP-SECRET"
ROUNDS = share_of(20_000)
LIMIT = 50.0


class Victim:
    """The bundled file tools over a root, with something worth stealing beside it."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "root"
        self.outside = folder / "outside"
        for each in (self.root, self.outside):
            each.mkdir()
            (each / "data.txt").write_text("mine\n" if each is self.root else f"{SECRET}\n")
        self._tools = {name: self._tool(name) for name in HANDLERS}
        self._executors = {name: _executor(name) for name in HANDLERS}

    def _tool(self, name: str) -> Tool:
        tool = ToolConfigLoader().load_file(TOOLS / f"{name}.yaml")
        entry = {"handler": name, "root": str(self.root)}
        return msgspec.structs.replace(tool, implementation_config=entry, source=None)

    def call(self, name: str, **params: Any) -> Any:
        return self._executors[name].execute(self._tools[name], params, ToolExecutionContext())

    def attempt(self, name: str, **params: Any) -> str:
        """Everything that the caller gets to see."""
        try:
            return str(self.call(name, **params))
        except ToolExecutionError as error:
            return f"refused: {error}"

    def everything(self, path: str) -> list[str]:
        """What all five tools answer to this path."""
        return [
            self.attempt("read_file", path=path),
            self.attempt("write_file", path=path, content="EVIL\n", create_folders=True),
            self.attempt("edit_file", path=path, old_text=SECRET, new_text="EVIL"),
            self.attempt("edit_file", path=path, old_text="\n", new_text="EVIL"),
            self.attempt("read_folder", path=path, depth=5, include_ignored=True),
            self.attempt("search_files", pattern="T.P", path=path, include_ignored=True),
        ]

    def check(self, answers: list[str]) -> None:
        """Nothing of the outside was told, and nothing there has changed."""
        assert not [answer for answer in answers if SECRET in answer]
        assert sorted(path.name for path in self.outside.iterdir()) == ["data.txt"]
        assert (self.outside / "data.txt").read_text() == f"{SECRET}\n"


def _executor(name: str) -> Any:
    module, _, attribute = BUILTIN_EXECUTORS[name].partition(":")
    return getattr(import_module(module), attribute)()


@pytest.fixture
def victim(tmp_path: Path) -> Victim:
    return Victim(tmp_path)


TRAVERSALS = (
    "../outside/data.txt",
    "..",
    "../",
    "sub/../../outside/data.txt",
    "....//outside/data.txt",
    "..;/outside/data.txt",
    "..%2foutside%2fdata.txt",
    "%2e%2e/outside/data.txt",
    "..\\outside\\data.txt",
    "..\u2215outside\u2215data.txt",
    "\uff0e\uff0e/outside/data.txt",
    "\u2024\u2024/outside/data.txt",
    "data.txt/../../outside/data.txt",
    "./.././outside/data.txt",
    "//outside/data.txt",
    "/../outside/data.txt",
    "{outside}/data.txt",
    "{root}/../outside/data.txt",
    "{root}/./../outside/data.txt",
    "{root}/{outside}/data.txt",
    "file://{outside}/data.txt",
    "~/data.txt",
    "$HOME/data.txt",
    "data.txt\0.png",
    "../outside/data.txt\0",
    "/proc/self/cwd/data.txt",
    "/proc/self/root/{outside}/data.txt",
    "/proc/self/fd/0",
    "/dev/fd/0",
    "/dev/stdin",
    "/dev/zero",
    "-rf",
    " ../outside/data.txt",
    "CON",
    "data.txt::$DATA",
    "a" * 5000,
    "../" * 200 + "etc/passwd",
)


@pytest.mark.parametrize("path", TRAVERSALS, ids=range(len(TRAVERSALS)))
def test_traversal(victim: Victim, path: str) -> None:
    """Attack: a path that climbs, is absolute, or is spelled so that a decoder would climb."""
    victim.check(victim.everything(path.format(root=victim.root, outside=victim.outside)))


@settings(max_examples=share_of(200))
@given(
    st.lists(st.sampled_from(["..", ".", "", "a", "link", "up", "data.txt", "outside"]), max_size=7)
)
def test_any_path(parts: list[str]) -> None:
    """Attack: any path made of what is dangerous."""
    victim = _HOUSE[0]
    victim.check(
        [
            victim.attempt("read_file", path="/".join(parts)),
            victim.attempt("read_folder", path="/".join(parts), depth=3),
            victim.attempt("write_file", path="/".join(parts), content="EVIL\n"),
        ]
    )


_HOUSE: list[Victim] = []


@pytest.fixture(scope="module", autouse=True)
def _house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    victim = Victim(tmp_path_factory.mktemp("house"))
    (victim.root / "a").mkdir()
    (victim.root / "link").symlink_to(victim.outside)
    (victim.root / "a/link").symlink_to("../../outside")
    (victim.root / "a/up").symlink_to("..")
    (victim.root / "up").symlink_to("a/../..")
    _HOUSE.append(victim)
    yield
    _HOUSE.clear()


@pytest.mark.parametrize(
    "target",
    [
        "{outside}/data.txt",
        "../outside/data.txt",
        "{outside}",
        "..",
        ".",
        "/proc/self/root",
        "/proc/self/cwd",
        "/dev/stdin",
        "a/../../outside/data.txt",
    ],
)
def test_link_in_the_root(victim: Victim, target: str) -> None:
    """Attack: a symbolic link that was put into the root, as a file and as a folder on the way."""
    (victim.root / "a").mkdir()
    link = victim.root / "link"
    link.symlink_to(target.format(outside=victim.outside))
    for path in ("link", "link/data.txt", "link/outside/data.txt", "link/link/data.txt"):
        victim.check(victim.everything(path))
    assert link.is_symlink()


def test_descriptors_of_the_process(victim: Victim) -> None:
    """Attack: a root in /proc, whose links lead to what the process has open."""
    with (victim.outside / "data.txt").open():
        link = victim.root / "fd"
        link.symlink_to("/proc/self/fd")
        tool = msgspec.structs.replace(
            victim._tools["read_file"],
            implementation_config={"handler": "read_file", "root": "/proc/self/fd"},
        )
        executor = _executor("read_file")
        for number in range(30):
            with pytest.raises(ToolExecutionError):
                executor.execute(tool, {"path": str(number)}, ToolExecutionContext())
            victim.check(victim.everything(f"fd/{number}"))


def _exchange(first: Path, second: Path) -> None:
    """Swaps two names in one step (renameat2 with RENAME_EXCHANGE)."""
    library = ctypes.CDLL(None, use_errno=True)
    names = os.fsencode(first), os.fsencode(second)
    if library.renameat2(-100, names[0], -100, names[1], 2) != 0:
        raise OSError(ctypes.get_errno(), "renameat2")


def _swap(first: Path, second: Path) -> None:
    """The same for systems without it: for a moment the name is not there."""
    third = first.with_name("third")
    first.rename(third)
    second.rename(first)
    third.rename(second)


@pytest.fixture(params=["exchange", "rename"])
def swap(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[Path, Path], None]:
    if request.param == "rename":
        return _swap
    for name in ("x", "y"):
        (tmp_path / name).touch()
    try:
        _exchange(tmp_path / "x", tmp_path / "y")
    except (OSError, AttributeError):
        pytest.skip("this system cannot exchange two names in one step")
    return _exchange


@pytest.mark.parametrize("what", ["folder", "file", "parent"])
def test_swap_race(victim: Victim, swap: Callable[[Path, Path], None], what: str) -> None:
    """Attack: 20,000 times a folder or file is swapped for a link to the outside, under calls."""
    house = victim.root / "house"
    (house / "sub").mkdir(parents=True)
    (house / "sub/data.txt").write_text("mine\n")
    real, target = {
        "folder": (house / "sub", victim.outside),
        "file": (house / "sub/data.txt", victim.outside / "data.txt"),
        "parent": (house, victim.root.parent / "trap"),
    }[what]
    (victim.root.parent / "trap").mkdir()
    (victim.root.parent / "trap/sub").symlink_to(victim.outside)
    link = victim.root / "link"
    link.symlink_to(target)
    (victim.root / "detour").symlink_to("house/sub/../sub")
    # In a moment without the name a new folder would take it, and end the race.
    makes = swap is _exchange
    answers: list[str] = []
    is_over = threading.Event()
    calls: list[tuple[str, dict[str, Any]]] = [
        ("read_file", {"path": "house/sub/data.txt"}),
        ("read_file", {"path": "detour/data.txt"}),
        ("write_file", {"path": "house/sub/data.txt", "content": "mine\n"}),
        ("write_file", {"path": "house/sub/new.txt", "content": "EVIL\n", "create_folders": makes}),
        ("edit_file", {"path": "house/sub/data.txt", "old_text": "mine", "new_text": "mine "}),
        ("read_folder", {"path": "house", "depth": 4}),
        ("search_files", {"pattern": "."}),
    ]

    def work(number: int) -> None:
        while not is_over.is_set():
            name, params = calls[number % len(calls)]
            answers.append(victim.attempt(name, **params))
            number += 1

    workers = [threading.Thread(target=work, args=(number,)) for number in (0, 3)]
    for worker in workers:
        worker.start()
    try:
        for _ in range(ROUNDS):
            swap(real, link)
            if not (real.is_symlink() or link.is_symlink()):
                # A write has replaced the link, which is right; the race goes on with a new one.
                link.unlink()
                link.symlink_to(target)
    finally:
        is_over.set()
        for worker in workers:
            worker.join(LIMIT)
    assert not any(worker.is_alive() for worker in workers)
    victim.check(answers)
    kinds = {answer.startswith("refused") for answer in answers}
    assert kinds == {True, False}, "the race was never close"


def test_rename_of_the_folder_that_is_written(victim: Victim) -> None:
    """Attack: the folder of a write is moved away and a link to the outside takes its place."""
    folder = victim.root / "sub"
    folder.mkdir()
    replacing = import_module("tool_engine.executors.files.replacing")
    real = replacing._write_file

    def write(*args: Any) -> None:
        real(*args)
        folder.rename(victim.root / "moved")
        folder.symlink_to(victim.outside)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(replacing, "_write_file", write)
        victim.call("write_file", path="sub/new.txt", content="EVIL\n")
    assert (victim.root / "moved/new.txt").read_text() == "EVIL\n"
    victim.check([])


@pytest.mark.parametrize("path", ["data.txt", "new.txt"])
def test_temporary_file_that_is_swapped(victim: Victim, path: str) -> None:
    """Attack: the hidden file of a write is swapped for a link before it gets its name."""
    replacing = import_module("tool_engine.executors.files.replacing")
    real = replacing._write_file

    def write(folder: int, name: str, *args: Any) -> None:
        real(folder, name, *args)
        (victim.root / name).unlink()
        (victim.root / name).symlink_to(victim.outside / "data.txt")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(replacing, "_write_file", write)
        victim.call("write_file", path=path, content="mine\n")
    inside = (victim.root / path).lstat()
    assert inside.st_ino != (victim.outside / "data.txt").stat().st_ino
    victim.check(victim.everything(path))


def test_special_files(victim: Victim) -> None:
    """Attack: opening a pipe would wait for ever, a device would act; neither is opened."""
    os.mkfifo(victim.root / "pipe")
    with socket.socket(socket.AF_UNIX) as server, contextlib.chdir(victim.root):
        server.bind("socket")
    with contextlib.suppress(PermissionError):
        os.mknod(victim.root / "zero", stat.S_IFCHR | 0o666, os.makedev(1, 5))
    names = sorted(path.name for path in victim.root.iterdir() if not path.is_file())
    for name in names:
        kind = (victim.root / name).lstat().st_mode
        for answer in victim.everything(name):
            assert answer.startswith("refused")
        assert (victim.root / name).lstat().st_mode == kind
    assert victim.call("search_files", pattern="m")["files_searched"] == 1


def test_pipe_that_appears_after_the_look(victim: Victim, monkeypatch: pytest.MonkeyPatch) -> None:
    """Attack: a file becomes a pipe between the look at it and the opening; nothing waits."""
    content = import_module("tool_engine.executors.files.text_content")
    real = content.status_of

    def look(place: Any) -> Any:
        seen = real(place)
        (victim.root / "data.txt").unlink()
        os.mkfifo(victim.root / "data.txt")
        return seen

    monkeypatch.setattr(content, "status_of", look)
    assert "is a named pipe" in victim.attempt("read_file", path="data.txt")


def test_hard_link(victim: Victim) -> None:
    """Attack: a hard link to an outside file is written; the outside keeps its content.

    That a hard link is *read* cannot be told from any other file: see docs/security.md.
    """
    (victim.root / "hard.txt").hardlink_to(victim.outside / "data.txt")
    victim.call("write_file", path="hard.txt", content="EVIL\n")
    victim.check([])
    (victim.root / "hard2.txt").hardlink_to(victim.outside / "data.txt")
    victim.call("edit_file", path="hard2.txt", old_text="TOP", new_text="EVIL")
    victim.check([])


def test_huge_sparse_file(victim: Victim) -> None:
    """Attack: a file of 10 GB that takes no room on the disk takes none in memory either."""
    (victim.root / "huge").touch()
    os.truncate(victim.root / "huge", 10 * 2**30)
    tracemalloc.start()
    try:
        for answer in (
            victim.attempt("read_file", path="huge"),
            victim.attempt("edit_file", path="huge", old_text="a", new_text="b"),
        ):
            assert "has 10737418240 bytes or more; this tool takes" in answer
        assert victim.call("search_files", pattern="a")["files_searched"] == 1
        assert victim.call("write_file", path="huge", content="small")["bytes"] == 5
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 20 * 2**20


def test_very_deep_tree(victim: Victim) -> None:
    """Attack: 10,000 folders in one another neither overflow a stack nor use up descriptors."""
    top = os.open(victim.root, os.O_RDONLY)
    folder = top
    for _ in range(10_000):
        os.mkdir("d", dir_fd=folder)
        deeper = os.open("d", os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = deeper
    os.close(folder)
    try:
        assert len(victim.call("read_folder", depth=32)["entries"]) == 33
        assert victim.call("search_files", pattern="mine")["files_searched"] == 1
        assert "more than 128 folders" in victim.attempt("read_file", path="d/" * 2000 + "x")
    finally:
        subprocess.run(["rm", "-rf", str(victim.root)], check=True, timeout=LIMIT)


def test_few_descriptors(victim: Victim) -> None:
    """Attack: when the process has no descriptor left, calls fail with words and recover."""
    victim.call("write_file", path="a/b/c/d.txt", content="x", create_folders=True)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    kept: list[int] = []
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
        with contextlib.suppress(OSError):
            while True:
                kept.append(os.dup(0))
        assert "refused" in victim.attempt("read_file", path="a/b/c/d.txt")
        os.close(kept.pop())
        os.close(kept.pop())
        assert "too many open files" in victim.attempt("read_file", path="a/b/c/d.txt")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for descriptor in kept:
            os.close(descriptor)
    assert victim.call("read_file", path="a/b/c/d.txt")["content"] == "x"


REDOS = (
    "(a+)+$",
    "(a|a)*b",
    "(a*)*b",
    "^(([a-z])+.)+[A-Z]([a-z])+$",
    "(.*){1,32}[bc]",
    "(?:a?){200}b",
)


@pytest.mark.parametrize("pattern", REDOS)
def test_redos(victim: Victim, pattern: str) -> None:
    """Attack: a pattern and a file that take a backtracking engine longer than the universe."""
    (victim.root / "bomb.txt").write_text(("a" * 3000 + "!\n") * 200)
    answer = victim.attempt("search_files", pattern=pattern)
    assert "matches" in answer or "cannot be used" in answer


def test_edit_that_explodes(victim: Victim) -> None:
    """Attack: a short call that would make a file of terabytes."""
    (victim.root / "bomb.txt").write_text("a" * 5_000)
    answer = victim.attempt(
        "edit_file", path="bomb.txt", old_text="a", new_text="b" * 100_000, replace_all=True
    )
    assert "more than 10485760 bytes" in answer
    assert (victim.root / "bomb.txt").read_text() == "a" * 5_000


@pytest.mark.parametrize("line", ["ax" + "x" * 896, "\n" * 899, "a" + "x" * 897 + "\n"])
def test_edit_of_ten_thousand_places(victim: Victim, line: str) -> None:
    """Attack: many places in one huge line, or in lines without end, which invite a square cost."""
    (victim.root / "bomb.txt").write_text(line * 10_000)
    found = victim.call("edit_file", path="bomb.txt", old_text=line, new_text="b", replace_all=True)
    assert found["replacements"] == 10_000
    assert (victim.root / "bomb.txt").read_text() == "b" * 10_000


def test_names_that_break_an_answer(victim: Victim) -> None:
    """Attack: file names with escape sequences, line feeds, other encodings and instructions."""
    for name in (b"\x1b[2J", b"a\nb", b"\xff\xfe", "\u202egpj.exe".encode(), b"'; rm -rf ~ #"):
        os.close(os.open(os.fsencode(victim.root) + b"/" + name, os.O_CREAT))
    found = victim.call("read_folder")
    assert msgspec.json.decode(msgspec.json.encode(found)) == found
    assert victim.call("search_files", pattern="mine")["matches"][0]["path"] == "data.txt"


@pytest.mark.parametrize("name", ["data.txt", "DATA.TXT", "d\u0430ta.txt", "dat\u0061\u0301.txt"])
def test_look_alike_names(victim: Victim, name: str) -> None:
    """Attack: a name that only looks like another one never reaches the other one's file."""
    victim.attempt("write_file", path=name, content="EVIL\n")
    is_other = name.casefold() != "data.txt" or not (victim.root / name.upper()).exists()
    if is_other and name != "data.txt":
        assert (victim.root / "data.txt").read_text() in ("mine\n", "EVIL\n")
    victim.check([])


def test_new_tool_by_file(tmp_path: Path) -> None:
    """Attack: a model writes a definition of its own, to be loaded at the next reload."""
    victim = Victim(tmp_path)
    definition = victim.root / "tools/write_file.yaml"
    definition.parent.mkdir()
    definition.write_text("name: write_file\n")
    (victim.root / "alias").symlink_to("tools")
    tool = msgspec.structs.replace(victim._tools["write_file"], source=str(definition))
    for path in (
        "tools/evil.yaml",
        "alias/evil.yaml",
        "tools/x/evil.yaml",
        "tools/write_file.yaml",
    ):
        with pytest.raises(ToolExecutionError):
            _executor("write_file").execute(
                tool, {"path": path, "content": "x", "create_folders": True}, ToolExecutionContext()
            )
    assert [path.name for path in definition.parent.iterdir()] == ["write_file.yaml"]
    assert definition.read_text() == "name: write_file\n"


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such folders")
def test_program_for_git(victim: Victim) -> None:
    """Attack: a hook that git would run at the owner's next commit."""
    (victim.root / ".git/hooks").mkdir(parents=True)
    for path in (".git/hooks/pre-commit", ".GIT/hooks/pre-commit", ".git/config", ".git\u200c/x"):
        assert "refused" in victim.attempt(
            "write_file", path=path, content="x", create_folders=True
        )
    assert list((victim.root / ".git/hooks").iterdir()) == []


@pytest.mark.skipif(shutil.which("git") is None, reason="there is no git")
def test_repository_without_its_name(victim: Victim) -> None:
    """Attack: a folder that git takes for a repository, whose settings name a program to run."""
    sub = victim.root / "sub"
    head = "[core]\nrepositoryformatversion = 0\nbare = false"
    program = f'fsmonitor = "touch {victim.root}/ran; false"'
    parts = {
        "config": f"{head}\nworktree = {sub}\n{program}\n",
        "HEAD": "ref: refs/heads/main\n",
        "objects/x": "x",
        "refs/x": "x",
    }
    told = [
        victim.attempt("write_file", path=f"sub/{path}", content=text, create_folders=True)
        for path, text in parts.items()
    ]
    assert "refused" in told[-1]
    subprocess.run(["git", "status"], cwd=sub, capture_output=True, check=False)
    assert not (victim.root / "ran").exists()
