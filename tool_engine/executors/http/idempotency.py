"""With which key does a server recognise a repeated write?

A server that supports `Idempotency-Key` (draft-ietf-httpapi-idempotency-key-header) carries out one
of several requests with the same key, so that a write may be tried again.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from tool_engine.errors import ToolExecutionError
from tool_engine.executors.secrets import SecretScope
from tool_engine.executors.templates import TemplateError, TextTemplate
from tool_engine.redaction import describe_value

IDEMPOTENCY_HEADER: Final = "Idempotency-Key"
CALL_ID: Final = "call_id"
"""The placeholder for the id of the call, unless a parameter has this name."""
_MAX_LENGTH: Final = 255
_VISIBLE: Final = re.compile(r"[\x21-\x7e]+", re.ASCII)
_NO_SECRETS: Final = SecretScope()


def parse_idempotency_key(value: Any) -> TextTemplate:
    """Read `entry.request.idempotency_key`; `true` means the id of the call.

    A text that is the same for every call is a `TemplateError`.
    """
    if value is True:
        value = f"{{{CALL_ID}}}"
    if not isinstance(value, str):
        raise TemplateError(
            f"must be true or a text such as 'order-{{{CALL_ID}}}', "
            f"got {describe_value(value)}; leave it out to "
            "send none"
        )
    template = TextTemplate.parse(value)
    if template.has_secret:
        raise TemplateError("holds a secret, which the server would keep; remove it")
    if not template.parameters:
        raise TemplateError(
            f"{value[:80]!r} is the same for every call, so all but the first would be ignored; "
            f"write {{{CALL_ID}}} or a parameter into it"
        )
    literal = "".join(part for part in template.parts if isinstance(part, str))
    if literal and not _VISIBLE.fullmatch(literal):
        raise TemplateError("must be written in visible ASCII characters, without blanks")
    return template


def idempotency_key(template: TextTemplate, params: Mapping[str, Any], call_id: str | None) -> str:
    """Return the call's key, the same in each attempt, at most 255 characters."""
    values = {CALL_ID: call_id or str(uuid.uuid4()), **params}
    for name in template.parameters:
        if values.get(name) in (None, ""):
            raise ToolExecutionError(f"the idempotency key needs the parameter {name!r}")
    key = template.render(values, _NO_SECRETS, _encode_text) or ""
    if len(key) > _MAX_LENGTH:
        raise ToolExecutionError(
            f"the idempotency key is {len(key)} characters long; the most is {_MAX_LENGTH}"
        )
    return key


def _encode_text(text: str) -> str:
    return quote(text, safe="", errors="replace")
