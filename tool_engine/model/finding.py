"""Which finding stands for a refusal that is only a sentence?"""

from __future__ import annotations

from typing import Any

from tool_engine.model.call import ValidationError

__all__ = ["finding_of"]


def finding_of(message: str, path: str = "") -> dict[str, Any]:
    """The finding of a refusal that is about the arguments as a whole, or about one place."""
    return ValidationError(path, "constraint_violation", message).to_dict()
