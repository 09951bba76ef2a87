"""How are the examples of a document run, in order, as a reader would run them?

Each document gets an empty folder, one event loop and one namespace:

- `python`: typed line by line at the prompt of `python -m asyncio`, see `tests.documents.prompt`. A
  first line `# app.py` makes the block a file, which a command runs or another block imports.
- `yaml`, `json`, `toml`, `text`, `javascript`: a first line `# tools/x.yaml` or `// x.json` writes
  the block to that file.
- `console`, `bash`, `sh`: each `$ command` is run and must exit with 0, or with the code of a
  trailing `# exit 1`. Commands that set up a machine (`make`, `git`, `pip` ...) are passed over;
  `export NAME=value` holds for what comes after it.
- `output`: what the block before it printed, `...` standing for anything.

In HTML comments, which a reader does not see:

- `<!-- skip: next -->` (Sybil's, with its start, end and conditions);
- `<!-- copy: tools -->` stands for the clone that the page tells its reader to make;
- `<!-- second-terminal: 8765 -->`: the next command is left running and listens on that port, which
  stands for a free one;
- `<!-- invisible-code-block: python` checks. What is shown cannot need what is hidden: such a block
  gets copies of the names and a folder of its own, and leaves no variable of the environment.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import doctest
import inspect
import io
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any
from unittest import SkipTest

import yaml
from sybil import Document, Example, Region
from sybil.parsers.markdown import SkipParser
from sybil.parsers.markdown.lexers import DirectiveInHTMLCommentLexer
from sybil.parsers.myst import CodeBlockParser

from tests.documents.prompt import compile_block, type_lines
from tests.ports import free_port
from tests.warm import programs, run
from tool_engine.executors.commands.sandbox_launcher import find_obstacle

CLONE = "clone of the project"
"""What a page says at its beginning that needs the project's own files."""
COMMAND_TIMEOUT = 90.0
"""Seconds for one command of a document."""

SET_UP = {"cd", "docker", "git", "make", "pip", "pipx", "source", "uv"}
"""Commands that prepare a reader's machine; here that is done."""

FILE_NAME = re.compile(r"\A(?:#|//) *((?:[\w.-]+/)*[\w.-]+\.\w+) *\n")
COMMAND = re.compile(r"^\$ ((?:.*\\\n)*.*)$", re.MULTILINE)
SECOND_TERMINAL = re.compile(r"<!-- second-terminal: (\d+) -->")
SCRIPTS = str(Path(sys.executable).parent)
IN_QUOTES = re.compile(r"""'[^']*'|"[^"$`\\!]*\"""")
SHELL = re.compile(r"[|&;<>()$`\\*?\[\]{}~!\n]")
"""What only a shell understands, outside of quotes in which nothing is replaced."""
EXIT_CODE = re.compile(r"\s+# exit (\d+)\s*$")


class ExampleError(AssertionError):
    """An example did not do what the document says."""


class DocumentRun:
    """One pass through the examples of one document."""

    def __init__(self, path: Path, project: Path, folder: Path) -> None:
        self.project = project
        self.folder = folder
        self.printed = ""
        self._runner = asyncio.Runner()
        self._hidden: dict[str, Any] = {}
        self._text = path.read_text(encoding="utf-8")
        self._ports = {port: str(free_port()) for port in SECOND_TERMINAL.findall(self._text)}
        self._port_beside = ""
        self._beside: list[subprocess.Popen[bytes]] = []
        self.document = Document.parse(
            str(path),
            *(CodeBlockParser(language, self._run_python) for language in ("python", "py")),
            *(CodeBlockParser(language, self._write) for language in FILES),
            *(CodeBlockParser(language, self._run_commands) for language in SHELLS),
            CodeBlockParser("output", self._compare),
            self._parse_directive("copy", self._copy),
            self._parse_directive("second-terminal", self._run_beside),
            SkipParser(),
        )
        # `skip: start if(...)` of a page asks for them.
        self.document.namespace |= {"find_obstacle": find_obstacle, "node": shutil.which("node")}

    def run(self) -> int:
        """Runs every example; returns how many there were."""
        count = 0
        with self._prompt(), contextlib.chdir(self.folder), self._runner:
            for example in self.document.examples():
                self._run_one(example)
                count += 1
            self._runner.run(_refuse_tasks_left(self.document.path))
        return count

    @contextlib.contextmanager
    def _prompt(self) -> Iterator[None]:
        """What a reader's shell and prompt of Python have, and give back when they end."""
        environment, modules = dict(os.environ), set(sys.modules)
        sys.path.insert(0, str(self.folder))
        # The pages' `python` and `tool-engine` are those of this installation, for what a block of
        # Python starts as well as for a command.
        os.environ["PATH"] = os.pathsep.join(
            [str(programs()), SCRIPTS, os.environ.get("PATH", os.defpath)]
        )
        try:
            yield
        finally:
            self._end_beside()
            sys.path.remove(str(self.folder))
            os.environ.clear()
            os.environ.update(environment)
            for name in set(sys.modules) - modules:
                if str(getattr(sys.modules[name], "__file__", "")).startswith(str(self.folder)):
                    del sys.modules[name]

    def _run_one(self, example: Example) -> None:
        place = f"{example.path}:{example.line}"
        try:
            example.evaluate()
        except ExampleError as error:
            raise ExampleError(f"{place}: {error}") from None
        except SkipTest:
            return
        except Exception as error:
            raise ExampleError(f"{place}: {_trail(error, example.path)}") from error

    def _run_python(self, example: Example) -> None:
        if example.region.lexemes.get("directive", "").startswith("invisible"):
            self._check(example)
            return
        if self._keep_file(example):
            return
        self.printed = self._run(example, example.namespace)

    def _check(self, example: Example) -> None:
        """Runs what a reader does not see, so that nothing that is shown can need it."""
        environment = dict(os.environ)
        try:
            with tempfile.TemporaryDirectory() as elsewhere, contextlib.chdir(elsewhere):
                shown = {**example.namespace, "folder": self.folder, "printed": self.printed}
                names = {**shown, **self._hidden}
                self._run(example, names, is_typed=False)
                self._hidden = {
                    name: value for name, value in names.items() if value is not shown.get(name)
                }
        finally:
            os.environ.clear()
            os.environ.update(environment)

    def _run(self, example: Example, namespace: dict[str, Any], *, is_typed: bool = True) -> str:
        """Runs a block of Python; what it printed."""
        line = example.line + example.parsed.line_offset
        source = self._as_here(example.parsed)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            for code in (
                type_lines(source, example.path, line)
                if is_typed
                else [compile_block(source, example.path, line)]
            ):
                # The prompt runs each statement in a copy of its own context.
                context = contextvars.copy_context()
                self._runner.run(_evaluate(code, namespace), context=context)
        return printed.getvalue()

    def _write(self, example: Example) -> None:
        if not self._keep_file(example) and example.region.lexemes["arguments"] == "yaml":
            list(yaml.safe_load_all(example.parsed))

    def _keep_file(self, example: Example) -> bool:
        match = FILE_NAME.match(example.parsed)
        if match is None:
            return False
        target = self.folder / match[1]
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(self._as_here(example.parsed), encoding="utf-8")
        return True

    def _run_commands(self, example: Example) -> None:
        self.printed = ""
        for shown in COMMAND.findall(example.parsed):
            command = self._as_here(shown)
            expected = EXIT_CODE.search(command)
            words = shlex.split(EXIT_CODE.sub("", command), comments=True)
            if self._port_beside:
                self._start_beside(command)
            elif words and words[0] == "export":
                self._export(command)
            elif words and words[0] not in SET_UP:
                self._run_command(command, int(expected[1]) if expected else 0)

    def _export(self, command: str) -> None:
        done = subprocess.run(
            ["/bin/sh", "-c", f"{command}; env -0"],
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=COMMAND_TIMEOUT,
            check=True,
        )
        names = {name for name, _, _ in (word.partition("=") for word in shlex.split(command))}
        for line in done.stdout.split("\0"):
            name, _, value = line.partition("=")
            if name in names:
                os.environ[name] = value

    def _run_command(self, command: str, expected: int) -> None:
        env = {
            **os.environ,
            # The pages show what a terminal shows, without its colours.
            "TTY_COMPATIBLE": "1",
            "TERM": "dumb",
            "COLUMNS": "100",
            "NO_COLOR": "1",
        }
        words = (
            [] if SHELL.search(IN_QUOTES.sub("", command)) else shlex.split(command, comments=True)
        )
        if words and words[0] in ("python", "tool-engine"):
            start = words[1:] if words[0] == "python" else ["-m", "tool_engine.cli", *words[1:]]
            done = run(start, cwd=self.folder, env=env, timeout=COMMAND_TIMEOUT)
        else:
            done = subprocess.run(
                ["/bin/sh", "-c", command],
                cwd=self.folder,
                env=env,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=COMMAND_TIMEOUT,
                check=False,
            )
        self.printed += done.stdout
        if done.returncode != expected:
            raise ExampleError(
                f"`{command}` ended with {done.returncode}, not {expected}:\n"
                f"{done.stdout}{done.stderr}"
            )

    def _compare(self, example: Example) -> None:
        flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
        if not doctest.OutputChecker().check_output(example.parsed, self.printed, flags):
            raise ExampleError(f"expected\n{example.parsed}\nprinted\n{self.printed}")

    def _parse_directive(self, name: str, evaluate: Callable[[Example], None]) -> Any:
        def parse(document: Document) -> Iterable[Region]:
            for region in DirectiveInHTMLCommentLexer(name)(document):
                region.parsed = region.lexemes["arguments"]
                region.evaluator = evaluate
                yield region

        return parse

    def _run_beside(self, example: Example) -> None:
        """Lets the next command run on, as in a terminal of its own."""
        self._port_beside = example.parsed.strip()

    def _start_beside(self, command: str) -> None:
        port = int(self._ports[self._port_beside])
        self._port_beside = ""
        words = [sys.executable if word == "python" else word for word in shlex.split(command)]
        process = subprocess.Popen(
            words, cwd=self.folder, start_new_session=True, stderr=subprocess.DEVNULL
        )
        self._beside.append(process)
        for _ in range(600):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                return
            time.sleep(0.05)
        raise ExampleError(f"`{command}` does not listen on its port")

    def _end_beside(self) -> None:
        for process in self._beside:
            process.kill()
            process.wait()

    def _as_here(self, text: str) -> str:
        """A text of the page with the ports that are free here."""
        for port, free in self._ports.items():
            text = text.replace(port, free)
        return text

    def _copy(self, example: Example) -> None:
        name = example.parsed.strip()
        if CLONE not in self._text[: example.region.end + 600]:
            raise ExampleError(f"the page needs {name!r}, and does not tell its reader: {CLONE!r}")
        shutil.copytree(self.project / name, self.folder / name)


FILES = ("yaml", "json", "toml", "text", "javascript")
SHELLS = ("console", "bash", "sh")


async def _evaluate(code: object, namespace: dict[str, object]) -> None:
    # A block without a top-level `await` runs here too: what it calls may need the running loop.
    result = eval(code, namespace)  # type: ignore[arg-type] # noqa: S307 - our own documents
    if inspect.iscoroutine(result):
        await result
    # While a reader types on, what is ready runs.
    for _ in range(20):
        await asyncio.sleep(0)


async def _refuse_tasks_left(path: str) -> None:
    for _ in range(20):
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        if not tasks:
            return
        await asyncio.sleep(0)
    raise ExampleError(f"{path}: the document's examples leave tasks behind: {tasks}")


def _trail(error: BaseException, path: str) -> str:
    lines = [
        frame.lineno
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename == path
    ]
    where = f"line {lines[-1]}: " if lines else ""
    return where + "".join(traceback.format_exception_only(error)).strip()


def documents(project: Path) -> list[Path]:
    """README.md and the pages of docs/."""
    pages = (project / "docs").rglob("*.md")
    return [project / "README.md", *sorted(page for page in pages if "_build" not in page.parts)]
