"""What do the examples and tests of a definition mean, and which of them cannot be meant?

The form is in `definition.schema.json`; what no schema can say well is here. Whether arguments fit
the tool is not looked at when a file is loaded: `tool-engine test` runs them, and a folder of
10,000 files would pay for it at every start.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any, Final

from tool_engine.catalog.document import Path
from tool_engine.catalog.structure import Fault

__all__ = ["CALL_ERRORS", "EXPECTATIONS", "example_faults"]

EXPECTATIONS: Final = ("expect", "expect_part", "expect_error")
"""The keys of a test that say what must come of it; each test has one of them."""
CALL_ERRORS: Final = (
    "cancelled",
    "circuit_open",
    "engine_closed",
    "execution_error",
    "executor_not_found",
    "queue_full",
    "queue_timeout",
    "rate_limited",
    "rejected",
    "timeout",
    "tool_not_found",
    "validation_error",
)
"""The error types of the engine itself; a tool may raise others of its own."""


def example_faults(definition: Mapping[str, Any]) -> list[Fault]:
    """What no schema says about a definition's `examples` and `tests`."""
    faults: list[Fault] = []
    for key in ("examples", "tests"):
        items = definition.get(key)
        for number, item in enumerate(items if isinstance(items, list) else ()):
            if isinstance(item, dict):
                _check_exchanges(item.get("http"), (key, number, "http"), faults)
                _check_meaning(key, item, (key, number), faults)
    _check_names(definition.get("tests"), faults)
    return faults


def _check_meaning(key: str, item: Mapping[str, Any], place: Path, faults: list[Fault]) -> None:
    if key == "tests":
        _check_expectation(item, place, faults)
    elif "output" not in item:
        for needless in ("http", "env"):
            if needless in item:
                message = (
                    f"an example without an output is not run, so its {needless} means nothing; "
                    f"add the output or remove {needless}"
                )
                faults.append(Fault((*place, needless), message, at_key=True))


def _check_expectation(test: Mapping[str, Any], place: Path, faults: list[Fault]) -> None:
    given = [key for key in EXPECTATIONS if key in test]
    if not given:
        message = (
            "the test does not say what must come of it; add expect, expect_part or expect_error"
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
        # A tool may raise an error type of its own, so only a slip of the pen is refused.
        near = difflib.get_close_matches(error[:80], CALL_ERRORS, n=1, cutoff=0.85)
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
