"""Does a pydantic `Field` stand in place of a parameter's default?

`note: str = Field("none", max_length=5)` is how pydantic's users write a default: to call the
function without `note` would hand it the `Field` itself. It is known by its name, so that pydantic
need not be installed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def kinds_of(value: object) -> frozenset[str]:
    """Return the names of the classes that `value` is an instance of."""
    return frozenset(kind.__name__ for kind in type(value).__mro__)


def is_field(value: object) -> bool:
    """True if `value` is what pydantic's `Field(...)` makes."""
    kinds = type(value).__mro__
    return any(kind.__name__ == "FieldInfo" and hasattr(value, "metadata") for kind in kinds)


def supplier_of(field: Any) -> Callable[[], Any] | None:
    """Return a function that makes the default of `field`; None: it has none."""
    factory = getattr(field, "default_factory", None)
    if factory is not None:
        return factory  # type: ignore[no-any-return] # it takes nothing, by its contract
    default = field.default
    is_missing = default is ... or type(default).__name__ == "PydanticUndefinedType"
    return None if is_missing else lambda: default
