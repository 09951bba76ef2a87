"""Do a definition's examples and tests hold, beyond what a schema can say?

The form is in `definition.schema.json`. Whether arguments fit the tool is not checked at loading:
`tool-engine test` runs them, and a folder of 10,000 files would pay for it at every start.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from tool_engine.catalog.definition.fault import Fault
from tool_engine.catalog.yaml.document import Path
from tool_engine.model.checks.nearness import find_near
from tool_engine.model.outcome import ErrorType

EXPECTATIONS: Final = ("expect", "expect_part", "expect_error")
"""The keys of a test that say how the call ends; each test has at most one of them."""
_MAX_FILES: Final = 100
"""Files of one test."""
_MAX_FILES_BYTES: Final = 1024 * 1024
_MAX_FOLDERS: Final = 20
"""Folders in the path of such a file."""
_WORLD: Final = ("http", "env", "files", "expect_files", "command", "sources")
"""The keys that describe a call's surroundings, for a call that really runs."""
CALL_ERRORS: Final = tuple(sorted(kind.value for kind in ErrorType))
"""The error types of the engine itself; a tool may raise others of its own."""


def example_faults(definition: Mapping[str, Any]) -> list[Fault]:
    faults: list[Fault] = []
    for key in ("examples", "tests"):
        items = definition.get(key)
        for number, item in enumerate(items if isinstance(items, list) else ()):
            if isinstance(item, dict):
                _check_exchanges(item.get("http"), (key, number, "http"), faults)
                for files in ("files", "expect_files"):
                    _check_files(item.get(files), (key, number, files), faults)
                _check_meaning(key, item, (key, number), faults)
    _check_names(definition.get("tests"), faults)
    return faults


def _check_meaning(key: str, item: Mapping[str, Any], place: Path, faults: list[Fault]) -> None:
    if key == "tests":
        _check_expectation(item, place, faults)
    elif "output" not in item:
        for needless in _WORLD:
            if needless in item:
                message = (
                    f"an example without an output is not run, so its {needless} means nothing; "
                    f"add the output or remove {needless}"
                )
                faults.append(Fault((*place, needless), message, at_key=True))


def _check_expectation(test: Mapping[str, Any], place: Path, faults: list[Fault]) -> None:
    given = [key for key in EXPECTATIONS if key in test]
    if not given and "expect_files" not in test:
        message = (
            "the test does not say what must come of it; add expect, expect_part, expect_error or "
            "expect_files"
        )
        faults.append(Fault(place, message))
    for other in given[1:]:
        message = f"{given[0]} and {other} exclude each other; give one"
        faults.append(Fault((*place, other), message, at_key=True))
    error = test.get("expect_error")
    path: Path = (*place, "expect_error")
    if isinstance(error, dict):
        error, path = error.get("error_type"), (*path, "error_type")
    if isinstance(error, str) and error not in CALL_ERRORS:
        # A tool may raise an error type of its own, so only a misspelt one is refused.
        near = find_near(error, CALL_ERRORS, 1, like_enough=0.85)
        if near:
            message = f"unknown error type {error[:80]!r}; did you mean {near[0]!r}?"
            faults.append(Fault(path, message))


def _check_exchanges(exchanges: Any, place: Path, faults: list[Fault]) -> None:
    for number, exchange in enumerate(exchanges if isinstance(exchanges, list) else ()):
        for side in ("request", "response"):
            message = exchange.get(side) if isinstance(exchange, dict) else None
            if isinstance(message, dict) and "json" in message and "body" in message:
                path = (*place, number, side, "body")
                faults.append(Fault(path, "json and body both say the body; give one", at_key=True))


def _check_files(files: Any, place: Path, faults: list[Fault]) -> None:
    if isinstance(files, dict):
        faults.extend(Fault((*place, *path), text) for path, text in _files_problems(files))


def _files_problems(files: Mapping[str, Any]) -> Iterator[tuple[Path, str]]:
    """Yield where and why these files cannot fill a folder."""
    texts = {path: text for path, text in files.items() if isinstance(text, str)}
    size = sum(len(text.encode("utf-8", "surrogatepass")) for text in texts.values())
    if len(files) > _MAX_FILES or size > _MAX_FILES_BYTES:
        message = (
            f"are {len(files)} files of {size} bytes; a test has at most {_MAX_FILES} files of "
            f"{_MAX_FILES_BYTES} bytes"
        )
        yield (), message
    for path in texts:
        folders = path.split("/")[:-1]
        if len(folders) > _MAX_FOLDERS:
            message = f"leads through {len(folders)} folders; at most {_MAX_FOLDERS} are made"
            yield (path,), message
            continue
        above = ("/".join(folders[:count]) for count in range(1, len(folders) + 1))
        if (file := next((each for each in above if each in texts), None)) is not None:
            yield (path,), f"is below {file!r}, which is a file; rename one"


def _check_names(tests: Any, faults: list[Fault]) -> None:
    seen: dict[str, int] = {}
    for number, test in enumerate(tests if isinstance(tests, list) else ()):
        name = test.get("name") if isinstance(test, dict) else None
        if not isinstance(name, str):
            continue
        if name in seen:
            message = f"tests[{seen[name]}] has the same name; rename one"
            faults.append(Fault(("tests", number, "name"), message))
        seen.setdefault(name, number)
