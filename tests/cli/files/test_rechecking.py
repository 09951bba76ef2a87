"""`validate --watch` tells what each settled change made of the files, until Ctrl-C."""

import asyncio
import io
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests import warm
from tool_engine.catalog.folder import file_events
from tool_engine.cli.app import run
from tool_engine.cli.failures import CommandError
from tool_engine.cli.files import rechecking
from tool_engine.cli.files.rechecking import _Watched
from tool_engine.cli.settings import Settings

GOOD = "name: ping\ndescription: x\n"
BAD = "name: ping\ndescription: x\nfoo: 1\n"


class Screen(io.StringIO):
    """What stands on stdout, and a way to wait until a text is there."""

    def __init__(self, *, is_terminal: bool = False) -> None:
        super().__init__()
        self._is_terminal = is_terminal
        self._written = asyncio.Event()

    def isatty(self) -> bool:
        return self._is_terminal

    def write(self, text: str) -> int:
        self._written.set()
        return super().write(text)

    async def take(self, text: str) -> str:
        """Everything up to the first line with `text`, once it is there."""
        async with asyncio.timeout(20):
            while text not in self.getvalue() or not self.getvalue().endswith("\n"):
                self._written.clear()
                await self._written.wait()
        found = self.getvalue()
        self.seek(0)
        self.truncate()
        return found


@asynccontextmanager
async def watched(
    monkeypatch: pytest.MonkeyPatch, *paths: Path, is_terminal: bool = False, **options: Any
) -> AsyncIterator[Screen]:
    """A running `validate --watch`, and its screen."""
    screen = Screen(is_terminal=is_terminal)
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("TERM", "xterm")
    # Quick enough for a test where the file system reports nothing.
    monkeypatch.setattr(rechecking, "_INTERVAL", 0.3)
    settings = Settings(str(paths[0]), options.get("is_recursive", False))
    names = [str(path) for path in paths]
    # The program makes it before it has a loop.
    loop = await asyncio.to_thread(_Watched, settings, names, as_json=options.get("as_json", False))
    task = asyncio.ensure_future(loop.run())
    try:
        yield screen
    finally:
        task.cancel()
        await asyncio.wait([task], timeout=20)
        if not task.cancelled():
            task.result()


def replace(path: Path, text: str) -> None:
    scratch = path.with_suffix(".new")
    scratch.write_text(text, encoding="utf-8")
    scratch.replace(path)


async def test_each_change_is_told_once_and_alone(
    tools: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """U23: wrong, right, gone: only what changed is printed, and the counts of all files."""
    (tools / "first.yaml").write_text("name: [", encoding="utf-8")
    async with watched(monkeypatch, tools) as screen:
        text = await screen.take("problem")
        assert "first.yaml:2:1: not valid YAML" in text
        assert text.endswith("4 files checked, 3 valid, 1 invalid, 1 problem\n")
        path = tools / "ping.yaml"
        replace(path, BAD)
        text = await screen.take("2 problems")
        assert f"{path}:3:1: foo: unknown key 'foo'" in text
        assert "first.yaml" not in text
        assert text.endswith("5 files checked, 3 valid, 2 invalid, 2 problems\n")
        replace(path, GOOD)
        text = await screen.take("4 valid")
        assert f"{path}: ok: ping 1.0.0" in text
        assert "unknown key" not in text
        path.unlink()
        text = await screen.take("3 valid")
        assert f"{path}: removed" in text
        assert "\x1b" not in text


async def test_a_file_that_another_one_breaks_is_told_too(
    tools: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K3: two files of one name are both wrong; when one goes, the other is right again."""
    async with watched(monkeypatch, tools) as screen:
        await screen.take("problems")
        replace(tools / "twin.yaml", "name: echo\ndescription: x\n")
        text = await screen.take("2 problems")
        assert "also defined in" in text
        (tools / "twin.yaml").unlink()
        assert "echo.yaml: ok: echo 1.0.0" in await screen.take("3 valid")


async def test_a_file_that_is_written_slowly_is_told_when_it_is_whole(
    tools: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No half of a file is ever blamed, however often it is looked at while it is written."""
    looks: asyncio.Queue[float] = asyncio.Queue()
    real = _Watched._look_again

    async def look(self: _Watched, paths: frozenset[str] | None, settle: float) -> Any:
        found = await real(self, paths, settle)
        looks.put_nowait(settle)
        return found

    monkeypatch.setattr(_Watched, "_look_again", look)
    # Else the looks of a busy machine may take as long as a file may stay open.
    monkeypatch.setattr(file_events, "_OPEN_TIME", 60.0)
    async with watched(monkeypatch, tools) as screen:
        await screen.take("problems")
        with (tools / "ping.yaml").open("w", encoding="utf-8") as stream:
            for part in ("name: pi", "ng\ndescription: x\n"):
                stream.write(part)
                stream.flush()
                for _ in range(4):
                    async with asyncio.timeout(20):
                        await looks.get()
                assert screen.getvalue() == ""
        text = await screen.take("4 files checked")
        assert "ping.yaml: ok: ping 1.0.0" in text
        assert "4 valid" in text


async def test_a_folder_and_a_file_may_come_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is not there yet is waited for, and what goes is waited for again."""
    folder, file = tmp_path / "later", tmp_path / "other" / "one.yaml"
    async with watched(monkeypatch, folder, file) as screen:
        text = await screen.take("0 files checked")
        assert f"waiting for {str(folder)!r}, which is not there" in text
        assert f"waiting for {str(file)!r}, which is not there" in text
        folder.mkdir()
        text = await screen.take("0 files checked")
        assert str(folder) not in text
        assert f"waiting for {str(file)!r}" in text
        replace(folder / "ping.yaml", GOOD)
        text = await screen.take("1 valid")
        assert "ping.yaml: ok" in text
        file.parent.mkdir()
        replace(file.parent / "beside.yaml", BAD)
        replace(file, "name: one\ndescription: x\n")
        text = await screen.take("2 valid")
        assert "one.yaml: ok" in text
        assert "beside" not in text
        (folder / "ping.yaml").unlink()
        folder.rmdir()
        assert "one.yaml" not in await screen.take(f"waiting for {str(folder)!r}")


def test_the_folder_of_a_file_is_watched(tools: Path, tmp_path: Path) -> None:
    """Each folder has one watcher; a name of a file means its folder, there or not."""
    strange = tools / "no.suffix"
    strange.touch()
    files = [str(tools / "echo.yaml"), str(tools / "fetch.yaml"), str(strange)]
    later = [str(tmp_path / "a" / "x.yml"), str(tmp_path / "b")]
    folders = rechecking._folders_of([*files, *later])
    assert folders == [str(tools), str(tmp_path / "a"), str(tmp_path / "b")]


async def test_sub_folders_are_watched_when_asked(
    tools: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--recursive` is the same here as everywhere."""
    (tools / "deep").mkdir()
    async with watched(monkeypatch, tools, is_recursive=True) as screen:
        await screen.take("3 files checked")
        replace(tools / "deep" / "ping.yaml", GOOD)
        assert "ping.yaml: ok" in await screen.take("4 files checked")


async def test_a_terminal_is_cleared_and_shows_all_that_is_wrong(
    tools: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a screen the present state stands, what was wrong before included."""
    (tools / "first.yaml").write_text("name: [", encoding="utf-8")
    async with watched(monkeypatch, tools, is_terminal=True) as screen:
        text = await screen.take("1 problem")
        assert "\x1b[2J" in text
        replace(tools / "ping.yaml", BAD)
        text = await screen.take("2 problems")
        assert text.startswith("\x1b")
        assert "first.yaml" in text
        assert "unknown key 'foo'" in text


async def test_programs_get_one_document_per_file(
    tools: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--json` prints the fields of `validate --json`, a line per file that changed."""
    async with watched(monkeypatch, tools, as_json=True) as screen:
        lines = [json.loads(line) for line in (await screen.take("fetch")).splitlines()]
        assert [line["tool"] for line in lines] == ["calculator", "echo", "fetch"]
        replace(tools / "ping.yaml", BAD)
        line = json.loads(await screen.take("ping"))
        assert (line["event"], line["is_valid"]) == ("checked", False)
        assert line["problems"][0]["line"] == 3
        (tools / "ping.yaml").unlink()
        assert json.loads(await screen.take("removed")) == {
            "event": "removed",
            "file": str(tools / "ping.yaml"),
        }


async def test_a_file_that_goes_while_it_is_looked_at_is_no_error(
    tools: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A path that vanishes between two steps of a look is looked at again."""
    watcher = await asyncio.to_thread(_Watched, Settings(), [str(tools)], as_json=False)
    real = Path.exists

    def exists(path: Path) -> bool:
        is_there = real(path)
        if is_there:
            tools.rename(tools.with_name("gone"))
        return is_there

    monkeypatch.setattr(Path, "exists", exists)
    assert list(await watcher._look_again(None, 0.0)) == []
    assert watcher._news.empty()


def test_ctrl_c_ends_it(tools: Path) -> None:
    """The real program ends with 130 and without a traceback."""
    with warm.Program(["-m", "tool_engine.cli", "validate", "--watch", str(tools)]) as process:
        assert process.stdout is not None
        assert b"3 files checked" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=20) == 130
        assert process.communicate(timeout=20)[1] == b""


def test_ctrl_c_in_this_process(
    command: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same as seen from inside: the exit code is 130, and nothing more is printed."""
    real = _Watched._print_changes

    def tell(self: _Watched, *news: Any) -> None:
        real(self, *news)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(_Watched, "_print_changes", tell)
    ended = command("validate", "--watch")
    assert (ended.code, ended.err) == (130, "")
    assert ended.out == "3 files checked, 3 valid, 0 invalid, 0 problems\n"


def test_it_ends_when_its_reader_has_gone(tools: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`validate --watch | head -1` ends without waiting for the next change."""
    reader, writer = os.pipe()
    real = _Watched._print_changes

    def tell(self: _Watched, *news: Any) -> None:
        real(self, *news)
        os.close(reader)

    monkeypatch.setattr(_Watched, "_print_changes", tell)
    with os.fdopen(writer, "w", encoding="utf-8") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        assert run(["--tools", str(tools), "validate", "--watch"]) == 1


def test_another_mistake_is_not_taken_for_ctrl_c(
    command: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What goes wrong in the middle is told."""

    async def fail(_: _Watched) -> int:
        raise CommandError("no")

    monkeypatch.setattr(_Watched, "run", fail)
    assert command("validate", "--watch") == (2, "", "error: no\n")
