"""Which words of an entry does its author take for what a shell would put in their place?

No shell reads an entry: a program gets `$HOME` and `|` as they stand, and a service gets `$TOKEN`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from tool_engine.catalog.yaml.document import Path, list_leaves
from tool_engine.redaction import is_secret_key

_OPERATOR: Final = re.compile(r"\|\|?|&&?|;|[12&]?>>?(?:&[12])?|<")
"""A word that joins or redirects programs."""
_SHELLS: Final = frozenset({"sh", "bash", "dash", "zsh", "ksh", "fish"})
_VARIABLE: Final = re.compile(
    r"(?<![\w$\\])\$([A-Z][A-Z0-9_]*_[A-Z0-9]+|HOME|USER|PATH|PWD|TOKEN|KEY|SECRET|PASSWORD)\b"
)
"""The name of a variable of the environment, which amounts of money do not look like."""
_ALONE: Final = re.compile(
    r"(?i:(?:bearer|basic|token|apikey) +)?"
    r"(?:\$(?:env:)?(?P<unix>[A-Z_]\w+)|%(?P<windows>[A-Z_]\w+)%)"
)
"""A whole text, but for its scheme, that can be nothing else, whatever the variable is called."""
Literal = tuple[Path, str, str]
"""A place, what is wrong there, and the cure."""
_NO_SHELL: Final = "make a workflow of both programs, or write a script: [sh, -c, SCRIPT]"
_OF_REQUESTS: Final = ("url", "query", "headers", "json", "auth")
_OF_SERVERS: Final = ("url", "headers", "env")


def find_literals(entry: Any) -> Iterator[Literal]:
    """Yield place, message and cure of what is sent as it stands and was hardly meant so."""
    if not isinstance(entry, Mapping):
        return
    words = entry.get("argv")
    if isinstance(words, list) and not _is_shell(words):
        yield from _in_arguments(words)
    request = entry.get("request")
    if isinstance(request, Mapping):
        sent = {key: request[key] for key in _OF_REQUESTS if key in request}
        yield from _in_texts(sent, ("entry", "request"))


def find_server_literals(definition: Mapping[str, Any]) -> Iterator[Literal]:
    """Yield the same of the definition of a server of tools."""
    yield from _in_texts({key: definition[key] for key in _OF_SERVERS if key in definition}, ())


def _in_texts(sent: Mapping[str, Any], place: Path) -> Iterator[Literal]:
    for path, text in list_leaves(sent, place):
        if isinstance(text, str) and (found := _find_variable(text)):
            word, name = repr(found[0]), found[1]
            if is_secret_key(str(path[-1])) and not name.isupper():
                # It may be a secret that only looks so, which no message repeats.
                word, name = "what looks like a variable", "NAME"
            message = f"{word} is sent as it stands"
            yield path, message, f"write ${{env:{name}}} for what the variable holds"


def _find_variable(text: str) -> tuple[str, str] | None:
    """Return a variable as it is written, and its name."""
    if alone := _ALONE.fullmatch(text.strip()):
        return text.split()[-1], alone["unix"] or alone["windows"]
    found = _VARIABLE.search(text)
    return None if found is None else (found[0], found[1])


def _is_shell(words: list[Any]) -> bool:
    return bool(words) and str(words[0]).rpartition("/")[2] in _SHELLS


def _in_arguments(words: list[Any]) -> Iterator[Literal]:
    for number, word in enumerate(words):
        place = ("entry", "argv", number)
        if not isinstance(word, str) or not number:
            continue
        if _OPERATOR.fullmatch(word):
            message = f"no shell runs this: the program gets {word!r} as it stands"
            yield place, message, _NO_SHELL
        elif found := _VARIABLE.search(word):
            message = f"no shell runs this: the program gets {found[0]!r} as it stands"
            yield place, message, "write the value"
