"""How are the examples of a document run, in order, as a reader would run them?

Each document gets an empty folder, one event loop and one namespace:

- `python`: run; top-level `await` works. A first line `# app.py` writes the block to a file too.
- `yaml`, `json`, `toml`, `text`: a first line `# tools/x.yaml` writes the block to that file.
- `console`, `bash`, `sh`: each `$ command` is run and must exit with 0, or with the code of a
  trailing `# exit 1`. Commands that set up a machine (`make`, `git`, `pip` ...) are passed over.
- `output`: what the block before it printed, `...` standing for anything.

In HTML comments: `<!-- skip: next -->` (Sybil's, with its start, end and conditions),
`<!-- invisible-code-block: python` and `<!-- copy: tools -->`, which copies a folder of the project
to where the document's examples run.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import doctest
import inspect
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import traceback
from collections.abc import Iterable
from pathlib import Path
from unittest import SkipTest

import yaml
from sybil import Document, Example, Region
from sybil.parsers.markdown import SkipParser
from sybil.parsers.markdown.lexers import DirectiveInHTMLCommentLexer
from sybil.parsers.myst import CodeBlockParser

COMMAND_TIMEOUT = 30.0
"""Seconds for one command of a document."""

SET_UP = {"cd", "docker", "export", "git", "make", "pip", "pipx", "source", "uv"}
"""Commands that prepare a reader's machine; here that is done."""

FILE_NAME = re.compile(r"\A# *((?:[\w.-]+/)*[\w.-]+\.\w+) *\n")
COMMAND = re.compile(r"^\$ ((?:.*\\\n)*.*)$", re.MULTILINE)
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
        self.document = Document.parse(
            str(path),
            *(CodeBlockParser(language, self._run_python) for language in ("python", "py")),
            *(CodeBlockParser(language, self._write) for language in ("yaml", "json", "toml")),
            CodeBlockParser("text", self._write),
            *(CodeBlockParser(language, self._run_commands) for language in SHELLS),
            CodeBlockParser("output", self._compare),
            self._parse_copies,
            SkipParser(),
        )
        self.document.namespace["__name__"] = "__main__"

    def run(self) -> int:
        """Runs every example; returns how many there were."""
        count = 0
        with contextlib.chdir(self.folder), self._runner:
            for example in self.document.examples():
                self._run_one(example)
                count += 1
            self._runner.run(_refuse_tasks_left(self.document.path))
        return count

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
        self._keep_file(example)
        line = example.line + example.parsed.line_offset
        code = compile(
            "\n" * line + example.parsed,
            example.path,
            "exec",
            flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT,
            dont_inherit=True,
        )
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            if starts_a_loop(example.parsed):
                exec(code, example.namespace)  # noqa: S102 - our own documents
            else:
                self._runner.run(_evaluate(code, example.namespace))
        self.printed = printed.getvalue()

    def _write(self, example: Example) -> None:
        if not self._keep_file(example) and example.region.lexemes["arguments"] == "yaml":
            list(yaml.safe_load_all(example.parsed))

    def _keep_file(self, example: Example) -> bool:
        match = FILE_NAME.match(example.parsed)
        if match is None:
            return False
        target = self.folder / match[1]
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(example.parsed, encoding="utf-8")
        return True

    def _run_commands(self, example: Example) -> None:
        self.printed = ""
        for command in COMMAND.findall(example.parsed):
            expected = EXIT_CODE.search(command)
            words = shlex.split(EXIT_CODE.sub("", command), comments=True)
            if words and words[0] not in SET_UP:
                self._run_command(command, int(expected[1]) if expected else 0)

    def _run_command(self, command: str, expected: int) -> None:
        scripts = str(Path(sys.executable).parent)
        done = subprocess.run(
            ["/bin/sh", "-c", command],
            cwd=self.folder,
            env={
                **os.environ,
                "PATH": os.pathsep.join([scripts, os.environ.get("PATH", os.defpath)]),
                "COLUMNS": "100",
                "NO_COLOR": "1",
            },
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

    def _parse_copies(self, document: Document) -> Iterable[Region]:
        for region in DirectiveInHTMLCommentLexer("copy")(document):
            region.parsed = region.lexemes["arguments"]
            region.evaluator = self._copy
            yield region

    def _copy(self, example: Example) -> None:
        name = example.parsed.strip()
        shutil.copytree(self.project / name, self.folder / name)


SHELLS = ("console", "bash", "sh")


async def _evaluate(code: object, namespace: dict[str, object]) -> None:
    # A block without a top-level `await` runs here too: what it calls may need the running loop.
    result = eval(code, namespace)  # type: ignore[arg-type] # noqa: S307 - our own documents
    if inspect.iscoroutine(result):
        await result


async def _refuse_tasks_left(path: str) -> None:
    for _ in range(20):
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        if not tasks:
            return
        await asyncio.sleep(0)
    raise ExampleError(f"{path}: the document's examples leave tasks behind: {tasks}")


def starts_a_loop(source: str) -> bool:
    """Whether the block calls `asyncio.run` itself, which it cannot inside a running loop."""
    return any(
        isinstance(node, ast.Call) and ast.unparse(node.func) == "asyncio.run"
        for node in ast.walk(compile(source, "?", "exec", _TREE, dont_inherit=True))
    )


_TREE = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT


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
