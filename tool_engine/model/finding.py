"""How does a refusal with only a message become a finding?"""

from __future__ import annotations

from typing import Any

from tool_engine.model.call import ValidationError


def finding_of(message: str, path: str = "") -> dict[str, Any]:
    """Return the finding of a refusal about all arguments, or about one place."""
    return ValidationError(path, "constraint_violation", message).to_dict()
