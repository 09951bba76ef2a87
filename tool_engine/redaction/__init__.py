"""What must never be seen in a record, an event, a log or an error, and how is it hidden?

The one place that hides secrets: by the name of their key (`secret_names`), by their shape in a
text (`shapes`, `pairs`), and by the value of every secret that was resolved (`known`), or that a
call was sent (`own`). `error_words` puts foreign exceptions into words.
"""

from tool_engine.redaction.error_words import (
    hide_quotes,
    kind_of,
    place_in_own_code,
    secrets_asked,
    secrets_if_known,
    shorten_words,
    trace_of,
    words_of,
)
from tool_engine.redaction.known import remember_secret, secret_forms
from tool_engine.redaction.own import NO_SECRETS, OwnSecrets
from tool_engine.redaction.secret_names import is_secret_key
from tool_engine.redaction.text import HIDDEN, describe_unfit, describe_value, redact_text
from tool_engine.redaction.tool_secrets import find_unlike, secrets_of
from tool_engine.redaction.value import redact

__all__ = [
    "HIDDEN",
    "NO_SECRETS",
    "OwnSecrets",
    "describe_unfit",
    "describe_value",
    "find_unlike",
    "hide_quotes",
    "is_secret_key",
    "kind_of",
    "place_in_own_code",
    "redact",
    "redact_text",
    "remember_secret",
    "secret_forms",
    "secrets_asked",
    "secrets_if_known",
    "secrets_of",
    "shorten_words",
    "trace_of",
    "words_of",
]
