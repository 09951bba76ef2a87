"""Which argument of a command is a script, so that a value in it would run as code?

This finds an author's slip when a definition is loaded. It is no protection from a malicious
definition: definitions are trusted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

_SHELL_OPTION: Final = re.compile(r"-[A-Za-z]*c[A-Za-z]*")
_C_OPTION: Final = re.compile(r"-[A-Za-z]*c")
_E_OPTION: Final = re.compile(r"-(?![MI])[A-Za-z0-9]*[eE]")
_SCRIPT_OPTIONS: Final[Mapping[str, re.Pattern[str]]] = {
    **dict.fromkeys(
        ("sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "fish", "csh", "tcsh", "su"),
        _SHELL_OPTION,
    ),
    "watch": re.compile(r"(?!)"),
    **dict.fromkeys(("python", "pypy"), _C_OPTION),
    **dict.fromkeys(("perl", "ruby", "lua", "Rscript"), _E_OPTION),
    **dict.fromkeys(("node", "nodejs", "deno", "bun"), re.compile(r"-e|-p|--eval|--print")),
    "php": re.compile(r"-r"),
    **dict.fromkeys(("sed", "gsed"), re.compile(r"-[A-Za-z]*e|--expression")),
    **dict.fromkeys(("awk", "gawk", "mawk", "nawk"), re.compile(r"-e|--source")),
}
"""How the option for a script begins; the script may be joined to it."""
_SCRIPT_IS_OPERAND: Final = frozenset({"sed", "gsed", "awk", "gawk", "mawk", "nawk", "watch"})
"""Programs whose first operand is a script."""
_TAKES_VALUE: Final = re.compile(r"[-+][A-Za-z]*[oOWX]|-[vF]|--rcfile|--init-file")
"""Other options whose value is the next argument, as in `bash -o pipefail -c ...`."""
_VERSION: Final = re.compile(r"[\d.]+$")


def script_places(argv: Sequence[str]) -> Iterator[tuple[str, int]]:
    """Yield each script or its container in `argv`: the program and the index.

    A program may stand behind another, as in `env FOO=1 sh -c ...`.
    """
    for number, word in enumerate(argv):
        name = _VERSION.sub("", word.rpartition("/")[2])
        option = _SCRIPT_OPTIONS.get(name)
        if option is not None:
            for place in _find_scripts(name, option, argv, number + 1):
                yield name, place


def _find_scripts(
    name: str, option: re.Pattern[str], argv: Sequence[str], start: int
) -> Iterator[int]:
    number = start
    while number < len(argv):
        word = argv[number]
        if option.fullmatch(word):
            yield from range(number + 1, min(number + 2, len(argv)))
            return
        if option.match(word):
            yield number  # joined to its option
        if not word.startswith(("-", "+")):
            if name in _SCRIPT_IS_OPERAND:
                yield number
            return
        number += 2 if _TAKES_VALUE.fullmatch(word) else 1
