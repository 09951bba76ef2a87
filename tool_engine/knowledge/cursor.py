"""Which error reports a query cursor that names no record?"""

from __future__ import annotations

from tool_engine.errors import ConfigurationError


def no_such_record(field: str, record_id: str) -> ConfigurationError:
    """Return the error of a query whose `before` or `after` names no record."""
    all_of_them = "up to the newest" if field == "before" else "from the oldest on"
    return ConfigurationError(
        f"{field} must be the record_id of a record that is kept, such as "
        f"{field}=records[-1].record_id, got {record_id!r}: no record has it, or it was removed; "
        f"leave {field} out to read {all_of_them}"
    )
