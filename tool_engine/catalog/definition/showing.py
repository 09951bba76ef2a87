"""What of a definition may be shown to people who operate the engine?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tool_engine.catalog.definition.export import mapping_of, write_mapping
from tool_engine.catalog.kinds import Definition
from tool_engine.model.tool import Tool
from tool_engine.redaction import HIDDEN, redact, secrets_of

_CASES: Final = ("examples", "tests")


def show_definition(definition: Definition) -> dict[str, Any]:
    """Return what a definition says as JSON values, with secrets hidden.

    Also those that only its schema calls secret: defaults, and arguments of examples and tests.
    """
    said = mapping_of(definition)
    if not isinstance(definition, Tool):
        return dict(redact(said))
    for key in _CASES:
        if key in said:
            said[key] = [show_case(definition, each) for each in said[key]]
    if "parameters" in said:
        said["parameters"] = _hide_defaults(said["parameters"])
    return dict(secrets_of(definition, {}).value(said))


def show_case(tool: Tool, case: Mapping[str, Any]) -> dict[str, Any]:
    """Return an example or a test of a tool, with the secrets of its arguments hidden."""
    params = case.get("params")
    known = params if isinstance(params, Mapping) else {}
    secrets = secrets_of(tool, known)
    return {**secrets.value(dict(case)), "params": secrets.params(known)}


def write_shown(definition: Definition) -> str:
    """Write what `show_definition` returns as YAML."""
    return write_mapping(show_definition(definition))


def _hide_defaults(said: Any) -> Any:
    """Return parameters without the defaults of what is secret, however short they are."""
    if isinstance(said, list):
        return [_hide_defaults(each) for each in said]
    if not isinstance(said, Mapping):
        return said
    copy = {key: _hide_defaults(each) for key, each in said.items()}
    is_secret = copy.get("secret") is True or copy.get("writeOnly") is True
    if is_secret and copy.get("default") is not None:
        copy["default"] = HIDDEN
    return copy
