"""Where below its root does a path lead?"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tool_engine.errors import ToolExecutionError
from tool_engine.executors.files.root import MAX_DEPTH, FileRoot

if TYPE_CHECKING:
    from tests.executors.files.conftest import Desk


def descriptors() -> set[str]:
    """What this process has open."""
    return {path.name for path in Path("/proc/self/fd").iterdir()}


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("..", "has '..' in it"),
        ("../outside/secret.txt", "has '..' in it"),
        ("a/../../outside/secret.txt", "has '..' in it"),
        ("a/..", "has '..' in it"),
        ("/etc/passwd", "outside of the tool's folder"),
        ("/", "outside of the tool's folder"),
        ("//etc/passwd", "outside of the tool's folder"),
        ("a\\b", "backslash"),
        ("..\\outside\\secret.txt", "backslash"),
        ("a\0b", "no path may have"),
        ("a\nb", "no path may have"),
        ("a\x1b[2Jb", "no path may have"),
        ("a\u2028b", "no path may have"),
        ("\ud800", "no path may have"),
        ("é" * 128, "a name has 255 at most"),
        ("a/" * 2049, "the most are 4096 bytes"),
        ("", "names a folder"),
        (".", "names a folder"),
        ("a/", "names a folder"),
        ("file.txt/a", "no folder"),
        ("missing/a", "there is no 'missing'"),
    ],
)
def test_path_that_is_refused(desk: Desk, path: str, message: str) -> None:
    """R8: a path that leads out, or that is none, is refused with the reason and the cure."""
    desk.put("file.txt", "x")
    desk.put("a/b", "x")
    with pytest.raises(ToolExecutionError, match=message.replace("(", r"\(")) as refused:
        desk.read(path)
    assert "SECRET" not in str(refused.value)
    assert str(desk.root) not in str(refused.value)


@pytest.mark.parametrize("path", ["a/b.txt", "./a//./b.txt", "{root}/a/b.txt", "{root}//a/b.txt"])
def test_path_forms(desk: Desk, path: str) -> None:
    """R8: a path is relative to the root, or absolute and below it; the answer is relative."""
    desk.put("a/b.txt", "text")
    found = desk.read(path.format(root=desk.root))
    assert (found["path"], found["content"]) == ("a/b.txt", "text")


def test_folder_beside_the_root_with_the_same_beginning(desk: Desk) -> None:
    """`/data-old` is not below `/data`."""
    twin = desk.root.with_name("root-old")
    twin.mkdir()
    (twin / "a").write_text("SECRET")
    with pytest.raises(ToolExecutionError, match="outside of the tool's folder"):
        desk.read(f"{twin}/a")


@pytest.mark.parametrize(
    ("link", "target"),
    [
        ("link.txt", "sub/data.txt"),
        ("sub/up.txt", "../other/data.txt"),
        ("sub/far.txt", "./../other/../other//data.txt"),
    ],
)
def test_link_that_stays_inside(desk: Desk, link: str, target: str) -> None:
    """A relative link whose target is below the root is walked like a path."""
    desk.put("sub/data.txt", "in sub")
    desk.put("other/data.txt", "in other")
    (desk.root / link).symlink_to(target)
    assert desk.read(link)["content"] == (desk.root / link).read_text()


def test_link_to_a_folder_that_stays_inside(desk: Desk) -> None:
    """So is a link to a folder, within a path and at its end."""
    desk.put("sub/data.txt", "data")
    (desk.root / "link").symlink_to("sub")
    assert desk.read("link/data.txt")["content"] == "data"
    assert desk.paths(path="link") == ["link/data.txt"]
    desk.write("link/new.txt", "new")
    assert (desk.root / "sub/new.txt").read_text() == "new"


def test_write_through_a_link_keeps_the_link(desk: Desk) -> None:
    """The file that a link leads to is replaced, not the link."""
    desk.put("sub/data.txt", "old")
    (desk.root / "link.txt").symlink_to("sub/data.txt")
    desk.write("link.txt", "new")
    assert (desk.root / "link.txt").is_symlink()
    assert (desk.root / "sub/data.txt").read_text() == "new"


@pytest.mark.parametrize(
    "target",
    ["../outside/secret.txt", "sub/../../outside/secret.txt", "{outside}/secret.txt", ".."],
)
def test_link_that_leads_out(desk: Desk, target: str) -> None:
    """A link that is absolute or climbs above the root is refused, for reading and writing."""
    desk.put("sub/data.txt", "data")
    (desk.root / "link").symlink_to(target.format(outside=desk.outside))
    attempts: tuple[Callable[[], object], ...] = (
        lambda: desk.read("link"),
        lambda: desk.read("link/secret.txt"),
        lambda: desk.write("link"),
        lambda: desk.write("link/secret.txt"),
        lambda: desk.edit("link", "SECRET", "x"),
        lambda: desk.listing(path="link"),
        lambda: desk.search("SECRET", path="link"),
    )
    for attempt in attempts:
        with pytest.raises(ToolExecutionError, match="leads out"):
            attempt()
    assert (desk.outside / "secret.txt").read_text() == "SECRET\n"


def test_links_in_a_circle(desk: Desk) -> None:
    """A walk along links ends."""
    (desk.root / "a").symlink_to("b")
    (desk.root / "b").symlink_to("a")
    with pytest.raises(ToolExecutionError, match="more than 16 symbolic links"):
        desk.read("a")


def test_link_to_a_folder_is_no_file(desk: Desk) -> None:
    """A link whose target ends in a folder names no file."""
    desk.put("sub/deep/data.txt", "data")
    (desk.root / "link").symlink_to("sub/deep/..")
    with pytest.raises(ToolExecutionError, match="is a folder"):
        desk.read("link")


def test_depth_of_a_path(desk: Desk) -> None:
    """A path may not take more descriptors than a process has to spare."""
    path = "a/" * MAX_DEPTH + "f"
    desk.put(path, "deep")
    assert desk.read(path)["content"] == "deep"
    before = descriptors()
    with pytest.raises(ToolExecutionError, match=f"more than {MAX_DEPTH} folders"):
        desk.write(f"a/{path}", create_folders=True)
    assert descriptors() == before


def test_missing_root(tmp_path: Path) -> None:
    """A root that is not there is the operator's to make; the message names the key."""
    with (
        pytest.raises(ToolExecutionError, match=r"create it, or correct entry\.root"),
        FileRoot(str(tmp_path / "missing")).folder("."),
    ):
        pass


def test_root_may_be_a_link(desk: Desk, tmp_path: Path) -> None:
    """The author of a definition answers for the root itself."""
    desk.put("a.txt", "text")
    (tmp_path / "alias").symlink_to("root")
    tool = desk.tool("read_file", root=str(tmp_path / "alias"))
    assert desk.run(tool, path="a.txt")["content"] == "text"


def test_no_descriptor_is_left_open(desk: Desk) -> None:
    """Each call closes what it opened, however it ends."""
    desk.put("a/b/c.txt", "text")
    (desk.root / "a/out").symlink_to("../..")
    before = descriptors()
    desk.read("a/b/c.txt")
    desk.write("a/b/d.txt")
    desk.listing(depth=5)
    for path in ("a/out/x", "a/b/c.txt/d", "a/b/x"):
        with pytest.raises(ToolExecutionError):
            desk.read(path)
    assert descriptors() == before


def test_missing_folder_tells_the_cure(desk: Desk) -> None:
    """Where the tool can make folders, the error says how; where it cannot, it does not."""
    desk.put("a/x.txt", "x")
    with pytest.raises(ToolExecutionError, match="set create_folders"):
        desk.write("new/x.txt")
    with pytest.raises(ToolExecutionError, match="list the folder"):
        desk.edit("new/x.txt", "a", "b")
    desk.write("new/deep/x.txt", create_folders=True)
    assert (desk.root / "new/deep/x.txt").read_text() == "new\n"


def test_folder_that_cannot_be_made(desk: Desk) -> None:
    """A name that is taken by a file makes no folder."""
    desk.put("taken", "x")
    with pytest.raises(ToolExecutionError, match="no folder"):
        desk.write("taken/x.txt", create_folders=True)


def test_folder_that_the_system_refuses_to_make(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the system says about a folder becomes an error with words for a model."""

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "mkdir", full)
    with pytest.raises(ToolExecutionError, match="no space is left"):
        desk.write("new/x.txt", create_folders=True)


@pytest.mark.parametrize("wrong", ["Readme.md", "README.MD", "REDME.md", "\ufb01le.md"])
def test_nearest_name(desk: Desk, wrong: str) -> None:
    """A name that is not there is never guessed, but the one like it is told."""
    desk.put("README.md")
    desk.put("file.md")
    expected = "file.md" if wrong.startswith("\ufb01") else "README.md"
    with pytest.raises(ToolExecutionError, match=f"did you mean '{expected}'"):
        desk.read(wrong)


def test_system_without_descriptors_of_folders(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the walk is not possible, the tools say so and open nothing."""
    desk.put("a.txt")
    monkeypatch.setattr(os, "supports_dir_fd", set())
    with pytest.raises(ToolExecutionError, match="Linux or macOS"):
        desk.read("a.txt")


class TestGuard:
    """What a model must not write, because others act on it."""

    def test_folder_of_definitions(self, desk: Desk) -> None:
        """A tool cannot add or change definitions in the folder of its own, by any path."""
        definition = desk.put("tools/write_file.yaml", "x")
        (desk.root / "alias").symlink_to("tools")
        tool = desk.tool("write_file", source=definition)
        for path in ("tools/evil.yaml", "alias/evil.yaml", "tools/sub/evil.yaml"):
            with pytest.raises(ToolExecutionError, match="definition"):
                desk.run(tool, path=path, content="x", create_folders=True)
        assert desk.run(tool, path="fine.txt", content="x")["created"]
        reader = desk.tool("read_file", source=definition)
        assert desk.run(reader, path="tools/write_file.yaml")["content"] == "x"

    def test_root_below_the_definitions(self, desk: Desk) -> None:
        """Definitions may be loaded from sub-folders too, so nothing is written there."""
        definition = desk.put("tools/write_file.yaml", "x")
        desk.put("tools/data/x")
        tool = desk.tool("write_file", source=definition, root="data")
        with pytest.raises(ToolExecutionError, match=r"correct entry\.root"):
            desk.run(tool, path="evil.yaml", content="x")

    @pytest.mark.parametrize(
        "path", [".git/hooks/pre-commit", "sub/.GIT/config", ".git", ".g\u200cit/config", ".git./x"]
    )
    def test_git(self, desk: Desk, path: str) -> None:
        """What git would run is not written, in any spelling that a file system may take for it."""
        with pytest.raises(ToolExecutionError, match=r"\.git folder"):
            desk.write(path, create_folders=True)
        desk.put(".git/config", "x")
        assert desk.read(".git/config")["content"] == "x"
        with pytest.raises(ToolExecutionError, match=r"\.git folder"):
            desk.edit(".git/config", "x", "y")

    @pytest.mark.parametrize(
        "path",
        [
            "git~1/config",
            "sub/GIT~2/hooks/x",
            "gi7eba~1",
            "GITATT~1",
            ".gitattributes",
            "sub/.GitModules",
            ".gitmodules .",
            ".gitconfig::$DATA",
            ".git::$INDEX_ALLOCATION/config",
        ],
    )
    def test_other_names_for_git(self, desk: Desk, path: str) -> None:
        """Short names, streams and the files that name programs are git's as well."""
        with pytest.raises(ToolExecutionError, match=r"git.*no tool may change"):
            desk.write(path, create_folders=True)
        assert desk.write(".gitignore")["created"]
        assert desk.write("git~/x", create_folders=True)["created"]

    @pytest.mark.parametrize(
        ("steps", "last"),
        [
            (("x/config", "x/HEAD", "x/objects/x"), "x/refs/x"),
            (("x/config", "x/refs/heads/x", "x/objects/x"), "x/HEAD"),
            (("x/HEAD", "x/refs/x", "x/config"), "x/objects"),
            (("x/config", "x/HEAD"), "x/commondir"),
            (("x/config", "x/commondir"), "x/HEAD"),
            (("HEAD", "objects/x", "config"), "refs/x"),
            (("x/refs/x", "x/objects/x"), "x/He\u200cad"),
        ],
    )
    def test_repository_by_another_name(
        self, desk: Desk, steps: tuple[str, ...], last: str
    ) -> None:
        """No order of writing makes a folder that git takes for a repository."""
        for path in steps:
            assert desk.write(path, create_folders=True)["created"]
        before = desk.names()
        with pytest.raises(ToolExecutionError, match="would be part of a git repository"):
            desk.write(last, create_folders=True)
        assert desk.names() == before
        assert desk.write(steps[0], "again\n")["bytes"] == 6

    @pytest.mark.parametrize("path", ["config", "hooks/pre-commit", "HEAD", "new", "refs/a/b"])
    def test_in_a_repository_by_another_name(self, desk: Desk, path: str) -> None:
        """Nothing is written below a folder that git takes for a repository, links or not."""
        for each in ("bare/HEAD", "bare/objects/x", "bare/refs/x", "bare/hooks/x"):
            desk.put(each, "x")
        (desk.root / "alias").symlink_to("bare")
        before = desk.names()
        for each in (f"bare/{path}", f"alias/{path}"):
            with pytest.raises(ToolExecutionError, match="would be part of a git repository"):
                desk.write(each, create_folders=True)
        assert desk.names() == before
        assert desk.read("alias/HEAD")["content"] == "x"

    @pytest.mark.parametrize(
        ("path", "function", "others"),
        [
            ("x/HEAD", "link", ("x/objects/x", "x/refs/x")),
            ("x/HEAD", "link", ("x/commondir",)),
            ("x/refs/x", "mkdir", ("x/HEAD", "x/objects/x")),
        ],
    )
    def test_repository_by_two_calls(
        self,
        desk: Desk,
        monkeypatch: pytest.MonkeyPatch,
        path: str,
        function: str,
        others: tuple[str, ...],
    ) -> None:
        """Calls that each bring a part at the same time make no repository either."""
        desk.put("x/config")
        real = getattr(os, function)

        def after_another(*args: Any, **options: Any) -> None:
            monkeypatch.undo()
            for each in others:
                desk.put(each)
            real(*args, **options)

        monkeypatch.setattr(os, function, after_another)
        with pytest.raises(ToolExecutionError, match="would be part of a git repository"):
            desk.write(path, create_folders=True)
        assert desk.names() == {"x", "x/config"} | {
            name for each in others for name in (each, str(Path(each).parent))
        }

    def test_settings_of_the_user_for_git(
        self, desk: Desk, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The settings that git reads in the home folder, and what they are links to."""
        monkeypatch.setenv("HOME", str(desk.root))
        monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
        (desk.root / ".gitconfig").symlink_to(desk.put("dot/settings", "x"))
        for path in (".config/git/config", ".config/git/attributes", "dot/settings"):
            with pytest.raises(ToolExecutionError, match=r"the settings of git.*no tool may"):
                desk.write(path, create_folders=True)
        assert desk.write(".config/other", create_folders=True)["created"]
        monkeypatch.setenv("XDG_CONFIG_HOME", str(desk.root / "own"))
        with pytest.raises(ToolExecutionError, match=r"the settings of git.*no tool may"):
            desk.write("own/git/config", create_folders=True)

    def test_definitions_that_are_gone(self, desk: Desk) -> None:
        """A folder of definitions that was removed guards nothing and stops nothing."""
        tool = desk.tool("write_file", source=desk.outside / "gone/write_file.yaml")
        assert desk.run(tool, path="a.txt", content="x")["created"]


def test_folder_whose_names_cannot_be_read(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the names of a folder there is no hint, and the error stays."""

    def failing(_folder: int) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "scandir", failing)
    with pytest.raises(ToolExecutionError, match="'x' does not exist; list the folder"):
        desk.read("x")
