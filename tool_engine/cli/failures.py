"""How does a command report that it cannot do what was asked?

A `CommandError` is a mistake on the command line or in a file that it names: a person sees one
message with its cure, a program one JSON document, and neither a traceback.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Final

from tool_engine.errors import ToolEngineError
from tool_engine.model.checks.nearness import suggest_near

EXIT_OK: Final = 0
EXIT_FAILED: Final = 1
"""A call failed, a definition is wrong, or the reader of the output went away."""
EXIT_USAGE: Final = 2
EXIT_INTERRUPTED: Final = 130


class CommandError(ToolEngineError):
    """A command cannot do what was asked.

    Args:
        message: What is wrong and what to do about it.
        error_type: The kind of mistake, for programs.
        exit_code: What the process ends with.
    """

    error_type = "usage_error"

    def __init__(
        self, message: str, *, error_type: str = "usage_error", exit_code: int = EXIT_USAGE
    ) -> None:
        super().__init__(message)
        self.kind: str = error_type
        self.exit_code: int = exit_code


def suggest_name(name: str, known: Iterable[str]) -> str:
    """Return `; did you mean 'echo'?`, or else all known names.

    Example:
        >>> suggest_name("ecko", ["calculator", "echo"])
        "; did you mean 'echo'?"
    """
    names = sorted(known)
    if near := suggest_near(name, names, 3):
        return near
    if not names:
        return ""
    more = f" and {len(names) - 10} more" if len(names) > 10 else ""
    return f"; there are: {', '.join(names[:10])}{more}"


def missing_file(text: str) -> CommandError:
    """Return the error about a path where nothing is, with what lies near it."""
    from tool_engine.named_file import explain_missing, is_broken_link

    path = Path(text)
    if is_broken_link(path):
        return CommandError(
            f"{text!r} {explain_missing(path)}; make the link anew, or what it leads to",
            error_type="no_such_file",
        )
    try:
        beside = list(path.parent.iterdir())
        # The name of a tool was written where that of its file belongs.
        named = [each / f"{path.name}.yaml" for each in beside if each.is_dir()]
        found = next((each for each in named if each.is_file()), None)
    except OSError:
        beside, found = [], None
    near = suggest_near(text, map(str, beside))
    if found is not None:
        near = f"; did you mean {str(found)!r}?"
    return CommandError(
        f"there is no file or folder {text!r}{near or '; check its name'}",
        error_type="no_such_file",
    )


def report_failure(message: str, error_type: str, *, form: str, hint: str = "") -> None:
    """Report a failure on stderr, or in the document that another program waits for on stdout."""
    from tool_engine.cli.console import print_json, safe_text

    if form == "json":
        print_json({"error": {"type": error_type, "message": message}})
        return
    if form in ("github", "junit", "sarif"):
        # By name: few commands have these.
        import_module("tool_engine.cli.files.report_formats").print_failure(
            form, error_type, message
        )
    # Where no message can be written, as to a closed terminal, the exit code remains.
    with contextlib.suppress(OSError):
        sys.stderr.write(f"{hint}error: {safe_text(message)}\n")
