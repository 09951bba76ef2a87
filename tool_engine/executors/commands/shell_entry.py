"""What does a definition's `entry` say about free shell scripts, and is it right?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from tool_engine.executors.entry_reader import EntryReader, is_filled_text
from tool_engine.model.permission import ExecutionPolicy
from tool_engine.redaction import describe_unfit, describe_value

SCRIPT: Final = "script"

_ENTRY_KEYS: Final = ("type", "handler", "cwd", "config")
_CONFIG_KEYS: Final = ("read", "write", "network", "deny")


class ShellPlan(msgspec.Struct, frozen=True):
    cwd: str
    read: tuple[str, ...]
    """Paths that may be read and executed, beside the system's programs."""
    write: tuple[str, ...]
    """Paths that may be changed as well."""
    network: bool
    deny: tuple[str, ...]
    """Texts that no script may contain: a hint for the model, no protection."""


class _Reader(EntryReader[ShellPlan]):
    def read(self) -> ShellPlan:
        entry = self.tool.implementation_config
        self.keys(entry, _ENTRY_KEYS, "entry")
        config = self.config(_CONFIG_KEYS)
        self._check_parameters()
        self._check_permission()
        write = self._read_texts(config, "write")
        if "/" in write:
            self.problem("entry.config.write", "opens the whole system; name the folders instead")
        return ShellPlan(
            cwd=self._read_cwd(entry.get("cwd")),
            read=self._read_texts(config, "read"),
            write=write,
            network=self._read_flag(config.get("network", False)),
            deny=self._read_texts(config, "deny"),
        )

    def _check_parameters(self) -> None:
        names = [parameter.name for parameter in self.tool.parameters]
        if names != [SCRIPT] or self.tool.parameters[0].type != "string":
            self.problem(
                "parameters", f"must be one text named {SCRIPT!r}, the script; got {names}"
            )

    def _check_permission(self) -> None:
        said = self.tool.permission
        if said is not None and said.execution is ExecutionPolicy.AUTO:
            self.problem(
                "permission",
                "lets scripts run that no person has seen; write ask_always, or ask_once to be "
                "asked about each script the first time",
            )

    def _read_cwd(self, cwd: Any) -> str:
        if isinstance(cwd, str) and cwd and "\0" not in cwd:
            return cwd
        self.problem(
            "entry.cwd", f"must be the folder that scripts run in, got {describe_value(cwd)}"
        )
        return "/"

    def _read_texts(self, config: Mapping[str, Any], key: str) -> tuple[str, ...]:
        value = config.get(key, [])
        if isinstance(value, list) and all(map(is_filled_text, value)):
            return tuple(value)
        got = describe_unfit(value, is_filled_text)
        self.problem(f"entry.config.{key}", f"must be a list of texts, got {got}")
        return ()

    def _read_flag(self, value: Any) -> bool:
        if not isinstance(value, bool):
            self.problem(
                "entry.config.network", f"must be true or false, got {describe_value(value)}"
            )
        return value is True


check_entry = _Reader.check
compile_entry = _Reader.compile
