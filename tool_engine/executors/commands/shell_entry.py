"""What does a definition's `entry` say about free shell scripts, and is it right?"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from tool_engine.errors import DefinitionError, DefinitionProblem
from tool_engine.model.tool import Tool

__all__ = ["ShellPlan", "check_entry", "compile_entry"]

SCRIPT: Final = "script"
"""The parameter that holds the script."""

_ENTRY_KEYS: Final = ("type", "handler", "cwd", "config")
_CONFIG_KEYS: Final = ("read", "write", "network", "deny")


class ShellPlan(msgspec.Struct, frozen=True):
    """What scripts may reach."""

    cwd: str
    read: tuple[str, ...]
    """What they may read and execute, beside the programs of the system."""
    write: tuple[str, ...]
    """What they may change as well."""
    network: bool
    deny: tuple[str, ...]
    """Texts that no script may hold: a hint for the model, no protection."""


def check_entry(tool: Tool) -> list[DefinitionProblem]:
    """Everything that is wrong with the `entry` of a shell tool; empty when it can run."""
    return _Reader(tool).problems


def compile_entry(tool: Tool) -> ShellPlan:
    """The entry of `tool`, ready to run; raises `DefinitionError` with all that is wrong."""
    reader = _Reader(tool)
    if reader.problems:
        raise DefinitionError(*reader.problems)
    return reader.plan


class _Reader:
    """Reads one entry, and goes on after a mistake so that all are found at once."""

    def __init__(self, tool: Tool) -> None:
        self._tool = tool
        self.problems: list[DefinitionProblem] = []
        entry = tool.implementation_config
        self._keys(entry, _ENTRY_KEYS, "entry")
        config = entry.get("config", {})
        if not isinstance(config, Mapping):
            self._problem("entry.config", f"must be a mapping, got {config!r}")
            config = {}
        self._keys(config, _CONFIG_KEYS, "entry.config")
        self._check_parameters()
        write = self._texts(config, "write")
        if "/" in write:
            self._problem("entry.config.write", "opens the whole system; name the folders instead")
        self.plan = ShellPlan(
            cwd=self._cwd(entry.get("cwd")),
            read=self._texts(config, "read"),
            write=write,
            network=self._flag(config.get("network", False)),
            deny=self._texts(config, "deny"),
        )

    def _problem(self, path: str, message: str) -> None:
        file = self._tool.source or f"tool {self._tool.name!r}"
        self.problems.append(DefinitionProblem(message, file=file, path=path))

    def _keys(self, mapping: Mapping[Any, Any], known: tuple[str, ...], path: str) -> None:
        for key in mapping:
            if key not in known:
                near = difflib.get_close_matches(str(key), known, n=1)
                hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known)}"
                self._problem(f"{path}.{key}", f"unknown key {key!r}; {hint}")

    def _check_parameters(self) -> None:
        names = [parameter.name for parameter in self._tool.parameters]
        if names != [SCRIPT] or self._tool.parameters[0].type != "string":
            self._problem(
                "parameters", f"must be one text named {SCRIPT!r}, the script; got {names}"
            )

    def _cwd(self, cwd: Any) -> str:
        if isinstance(cwd, str) and cwd and "\0" not in cwd:
            return cwd
        self._problem("entry.cwd", f"must be the folder that scripts run in, got {cwd!r}")
        return "/"

    def _texts(self, config: Mapping[str, Any], key: str) -> tuple[str, ...]:
        value = config.get(key, [])
        if isinstance(value, list) and all(isinstance(x, str) and x for x in value):
            return tuple(value)
        self._problem(f"entry.config.{key}", f"must be a list of texts, got {value!r}")
        return ()

    def _flag(self, value: Any) -> bool:
        if not isinstance(value, bool):
            self._problem("entry.config.network", f"must be true or false, got {value!r}")
        return value is True
