"""Which callers does a definition name, and do its further names and hints fit it?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from tool_engine.catalog.definition.fault import Fault
from tool_engine.model.tool import EVERYONE, MODEL

_COMMAND: Final = "command"
_COPIED: Final = ("title", "vcp_command", "annotations")


def reader_faults(definition: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield what is wrong with `audience`, `aliases` and `vcp_command`."""
    audience, aliases = definition.get("audience"), definition.get("aliases")
    if audience == [MODEL]:
        message = "what a model may call, the program that runs the call may call, too"
        yield Fault(("audience",), message, cure="write [model, code], or remove audience")
    for number, alias in enumerate(aliases if isinstance(aliases, list) else ()):
        if isinstance(alias, str) and alias == definition.get("name"):
            message = "this is the name of the tool itself"
            yield Fault(("aliases", number), message, cure="remove it here")
    if isinstance(definition.get("vcp_command"), str) and _takes_command(definition):
        message = "VCP sends it as the parameter command, which this tool has itself"
        cure = "rename the parameter, or remove vcp_command"
        yield Fault(("vcp_command",), message, at_key=True, cure=cure)


def hint_warnings(definition: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield the hints that say something else than `effect` and `idempotent`."""
    hints, effect = definition.get("annotations", {}), definition.get("effect")
    reads, destroys = hints.get("readOnlyHint"), hints.get("destructiveHint")
    if reads is not None and effect in ("read", "write") and reads is not (effect == "read"):
        yield _describe_contradiction("readOnlyHint", reads, f"effect is {effect}")
    if destroys is True and (effect == "read" or reads is True):
        said = "effect is read" if effect == "read" else "readOnlyHint is true"
        yield _describe_contradiction("destructiveHint", destroys, said)
    if hints.get("idempotentHint") is False and definition.get("idempotent") is True:
        yield _describe_contradiction("idempotentHint", False, "idempotent is true")


def read_readers(definition: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a tool that say who calls it, by which names and with which hints."""
    fields = {key: definition[key] for key in _COPIED if key in definition}
    if "audience" in definition:
        chosen = definition["audience"]
        fields["audience"] = tuple(each for each in EVERYONE if each in chosen)
    if "aliases" in definition:
        fields["aliases"] = tuple(definition["aliases"])
    return fields


def _describe_contradiction(hint: str, value: bool, other: str) -> Fault:
    message = f"{hint} is {'true' if value else 'false'}, and {other}"
    return Fault(("annotations", hint), message, cure="correct one of the two")


def _takes_command(definition: Mapping[str, Any]) -> bool:
    parameters = definition.get("parameters")
    if isinstance(parameters, Mapping):
        properties = parameters.get("properties")
        return isinstance(properties, Mapping) and _COMMAND in properties
    listed = parameters if isinstance(parameters, list) else ()
    return any(isinstance(each, Mapping) and each.get("name") == _COMMAND for each in listed)
