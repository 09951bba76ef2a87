"""Is an argument a list of texts?"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from tool_engine.errors import ConfigurationError


def require_texts(name: str, values: Any) -> list[str]:
    """Return the texts of a list.

    Raises:
        ConfigurationError: It is one text, whose letters would be taken for many, or no texts.
    """
    is_list = isinstance(values, Collection) and not isinstance(values, str | bytes | Mapping)
    if is_list and all(isinstance(each, str) for each in values):
        return list(values)
    raise ConfigurationError(
        f"{name} must be a list of texts, got {values!r:.80}; write ['...'], also for one"
    )
