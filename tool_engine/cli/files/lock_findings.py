"""How do other programs read what is not approved?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tool_engine.catalog.approval.lock_state import APPROVED, CHANGED, GONE, NEW, LockState
from tool_engine.catalog.yaml.strict_yaml import parse_yaml
from tool_engine.cli.files.report_formats import (
    Finding,
    Rule,
    make_finding,
    print_report,
    read_place,
)

_UNREADABLE: Final = "unreadable"
_KINDS: Final = {"": "tool", "group": "group", "server": "mcp_server"}
"""What stands before a name in `LockState`, and the `kind` of such a definition."""
_WORDS: Final = {
    NEW: "new, and not approved",
    CHANGED: "not what was approved",
    GONE: "approved, and gone",
}


def print_findings(
    form: str,
    path: str,
    states: Sequence[LockState],
    files: Mapping[str, str],
    texts: Sequence[str],
) -> None:
    """Print what is not approved in one of `REPORTS`.

    Args:
        form: The format.
        path: The lock file, at which stands what is in no other.
        states: What was compared.
        files: The file of each definition that is in one, by its name in `states`.
        texts: What could not be compared, with its file before it.
    """
    findings = [
        Finding(
            each.status,
            "error",
            f"{each.name} {describe_versions(each)} is {_WORDS[each.status]}: look at it, then "
            f"run tool-engine lock --approve {each.name}",
            files.get(each.name, path),
            _find_line(each.name, files.get(each.name)),
        )
        for each in states
        if each.status != APPROVED
    ]
    for text in (line for each in texts for line in each.splitlines()):
        file, _, _ = read_place(text.partition(": ")[0])
        is_place = file is not None and Path(file).exists()
        findings.append(
            make_finding(_UNREADABLE, "error", text, file if file and is_place else path)
        )
    rules = [Rule(status, f"The definition is {words}") for status, words in _WORDS.items()]
    rules.append(Rule(_UNREADABLE, "It could not be compared"))
    print_report(form, "lock", findings, [path, *files.values()], rules)


def _find_line(name: str, file: str | None) -> int | None:
    """Return the line at which a definition names itself in its file; None: not known."""
    if file is None or not file.endswith((".yaml", ".yml")):
        return None
    prefix, _, own = name.rpartition(":")
    try:
        documents, _ = parse_yaml(Path(file).read_bytes(), file)
    except OSError:
        return None
    for document in documents:
        value = document.value if isinstance(document.value, dict) else {}
        if (value.get("name"), value.get("kind", "tool")) == (own, _KINDS[prefix]):
            return document.position(("name",), of_key=True)[0]
    return None


def describe_versions(each: LockState) -> str:
    """Return the version of a definition, beside the approved one where that is another."""
    if each.is_code:
        return f"{each.version} (the code of its handler)"
    if each.version is None or each.approved_version in (None, each.version):
        return each.version or f"{each.approved_version}"
    return f"{each.approved_version} -> {each.version}"
