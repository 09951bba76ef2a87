"""Which fields may a program give to a configuration?"""

from __future__ import annotations

from typing import Any

import msgspec

from tool_engine.errors import ConfigurationError
from tool_engine.model.nearness import suggest_near

__all__ = ["KnownFields"]


class KnownFields(msgspec.StructMeta):
    """A class whose unknown fields are an error that names the near one."""

    def __call__(cls, *args: Any, **values: Any) -> Any:  # noqa: N805 - of a class of classes
        """Makes an object.

        Raises:
            ConfigurationError: It has no such field; the message names the nearest. Or there are
                too many values, or too few.
        """
        known = cls.__struct_fields__
        for name in values:
            if name not in known:
                hint = suggest_near(name, known) or f"; it has {', '.join(known)}"
                raise ConfigurationError(f"{cls.__name__} has no field {name!r}{hint}")
        try:
            return super().__call__(*args, **values)
        except TypeError as error:
            raise ConfigurationError(f"{cls.__name__} cannot be made: {error}") from error
