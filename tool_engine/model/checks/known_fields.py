"""Which fields may a program give to a configuration?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Self

import msgspec

from tool_engine.errors import ConfigurationError
from tool_engine.model.checks.nearness import suggest_near

_TAKES_ANY: Final = 0x08
"""The code flag of a function with `**kwargs`; `inspect` is slow to load."""


class KnownFields(msgspec.StructMeta):
    """A metaclass whose unknown fields raise an error that suggests the nearest."""

    def __call__(cls, *args: Any, **values: Any) -> Any:  # noqa: N805 - of a class of classes
        """Make an object.

        Raises:
            ConfigurationError: It has no such field; the message names the nearest. Or there are
                too many values, or too few.
        """
        try:
            return super().__call__(*args, **values)
        except TypeError as error:
            check_known(cls.__name__, values, cls.__struct_fields__)
            raise ConfigurationError(f"{cls.__name__} cannot be made: {error}") from error


class UnknownNameError(AttributeError):
    """Says which attribute was meant, once it is read.

    Most are caught unread: to look at what a result may have, `getattr` with a default is usual.
    """

    def __str__(self) -> str:
        # Loaded by name: programs that run have no misspelt names.
        explain = import_module("tool_engine.missing_attributes").explain_attribute
        return str(explain(self.obj, self.name))


class KnownNames:
    """A base class whose AttributeErrors say which name was meant, as other libraries have it."""

    __slots__ = ()

    if not TYPE_CHECKING:  # type checkers would accept any name

        def __getattr__(self, name: str) -> Any:
            raise UnknownNameError(name=name, obj=self)


class KnownArguments:
    """A base class whose unknown keywords raise an error that suggests the nearest.

    Raises:
        ConfigurationError: It takes no such argument; the message names the nearest.
    """

    __slots__ = ()

    def __new__(cls, *_args: Any, **values: Any) -> Self:
        """Check the keywords that `__init__` will be given."""
        code = getattr(cls.__init__, "__code__", None)
        if values and code is not None and not code.co_flags & _TAKES_ANY:
            named = code.co_argcount + code.co_kwonlyargcount
            check_known(cls.__name__, values, code.co_varnames[1:named], word="argument")
        return super().__new__(cls)


def check_known(
    kind: str, given: Iterable[str], known: Sequence[str], *, word: str = "field"
) -> None:
    """Raise `ConfigurationError` for the first of the `given` names that is not `known`."""
    for name in given:
        if name not in known:
            # Fields with `_` are set by the engine alone.
            shown = [each for each in known if not each.startswith("_")]
            hint = suggest_near(name, shown) or f"; it has {', '.join(shown)}"
            raise ConfigurationError(f"{kind} has no {word} {name!r}{hint}")
