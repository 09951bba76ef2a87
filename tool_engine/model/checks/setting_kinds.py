"""Is a setting a switch, a name or a path, where it must be one?"""

from __future__ import annotations

from collections.abc import Iterable
from os import PathLike, fspath
from typing import Final

from tool_engine.errors import ConfigurationError

_WORDS: Final = {
    **dict.fromkeys(("true", "yes", "on", "1"), True),
    **dict.fromkeys(("false", "no", "off", "0"), False),
}
"""Words that people write for a switch elsewhere."""


def check_switch(name: str, value: object) -> None:
    """Raise `ConfigurationError` unless `value` is True or False."""
    if isinstance(value, bool):
        return
    meant = _WORDS.get(str(value).strip().lower())
    cure = "" if meant is None else f"; write {meant}"
    raise ConfigurationError(f"{name} must be True or False, got {value!r}{cure}")


def check_name(name: str, value: object, *, may_be_none: bool = False) -> None:
    """Raise `ConfigurationError` unless `value` is a text with something in it."""
    if may_be_none and value is None:
        return
    if not isinstance(value, str) or not value.strip():
        other = ", or None" if may_be_none else ""
        raise ConfigurationError(f"{name} must be a text that is not empty{other}, got {value!r}")


def check_text(name: str, value: object) -> None:
    """Raise `ConfigurationError` unless `value` is a text, or None."""
    if not (value is None or isinstance(value, str)):
        raise ConfigurationError(f"{name} must be a text, or None, got {value!r:.80}")


def check_function(name: str, value: object, takes: str) -> None:
    """Raise `ConfigurationError` unless `value` can be called.

    Args:
        name: Of the argument that has the function.
        value: The argument.
        takes: What it is a function of, such as `of a result`.
    """
    if not callable(value):
        raise ConfigurationError(f"{name} must be a function {takes}, got {value!r:.80}")


def check_object(name: str, value: object, kind: type, cure: str) -> None:
    """Raise `ConfigurationError` unless `value` is an object of a class.

    Args:
        name: Of the argument that has the object.
        value: The argument.
        kind: The class.
        cure: What to write.
    """
    if not isinstance(value, kind):
        raise ConfigurationError(
            f"{name} must be a {kind.__name__}, got {value!r:.80}; write {cure}"
        )


def check_names(name: str, value: object, kind: str) -> tuple[str, ...]:
    """Return texts in a tuple; raise `ConfigurationError` for one text, and for anything else.

    Args:
        name: Of the argument that has the texts.
        value: The argument.
        kind: What each text is, such as `tool name`.
    """
    is_list = isinstance(value, Iterable) and not isinstance(value, str | bytes)
    texts: tuple[object, ...] = tuple(value) if is_list else ()  # type: ignore[arg-type]
    if is_list and all(isinstance(text, str) for text in texts):
        return texts  # type: ignore[return-value]
    cure = f"; write [{value!r}]" if isinstance(value, str) else ""
    raise ConfigurationError(f"{name} must be a list of {kind}s, got {repr(value)[:80]}{cure}")


def check_path(name: str, value: object) -> str:
    """Return a setting's path as text; raise `ConfigurationError` for anything else."""
    path = fspath(value) if isinstance(value, str | PathLike) else value
    if isinstance(path, str) and path:
        return path
    raise ConfigurationError(f"{name} must be a path, as text or a Path, got {value!r}")
