"""How do errors name the arguments that the model wrote under other names?

A text protocol takes `IMAGE-SIZE` for `image_size`, and `size2` for the `size` of the second call
of a block. A fault in a value is found under the tool's name; the model looks for its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from tool_engine.model.call import ToolExecutionResult


def name_as_sent(result: ToolExecutionResult, sent_names: Mapping[str, str]) -> ToolExecutionResult:
    """Return a refused call's result with the names that the model wrote.

    `sent_names` maps the names in the result to those. In the copy each finding about such an
    argument has its name as `sent_as`, and so has the text.
    """
    findings = [_add_sent_name(each, sent_names) for each in result.validation_errors]
    wrong = [each for each in findings if "sent_as" in each and each["level"] == "error"]
    sent = {each["parameter"]: each["sent_as"] for each in wrong}
    note = "".join(f"; you sent {name!r} as {key!r}" for name, key in sent.items())
    texts = ("error", "formatted_text", "final_text")
    changed = {
        name: text + note for name in texts if isinstance(text := getattr(result, name, None), str)
    }
    return msgspec.structs.replace(result, validation_errors=findings, **changed)


def _add_sent_name(finding: dict[str, Any], sent_names: Mapping[str, str]) -> dict[str, Any]:
    sent = sent_names.get(finding["parameter"])
    return finding if sent is None else {**finding, "sent_as": sent}
