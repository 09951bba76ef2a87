"""Which tool does a further name mean, and which names do several tools claim?"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Any, Final, Protocol

JOINTS: Final = ("_", ".", "-")
"""What stands between a tool and its method in a name. A35."""
COMMAND: Final = "command"
"""The parameter in which text protocols write a method."""
Claim = str | tuple[str, str]
"""An alias, or the part of a tool's name before its method and its `vcp_command`."""


class Named(Protocol):
    """What is read here of a `Tool`."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def aliases(self) -> tuple[str, ...]:
        """Its further names."""

    @property
    def vcp_command(self) -> str | None:
        """The command of its method in VCP, if its definition says one."""

    @property
    def parameters_schema(self) -> dict[str, Any]:
        """The JSON Schema of its arguments."""


class AliasTable:
    """The further names of a set of tools; one that is not clear means none of them.

    Args:
        tools: The tools that have further names, or may have some.
    """

    __slots__ = ("_claims",)

    def __init__(self, tools: Iterable[Named] = ()) -> None:
        self._claims: dict[Claim, tuple[str, ...]] = {}
        for tool in tools:
            if tool.aliases or tool.vcp_command:
                self._add_claims(tool)

    def items(self) -> Iterable[tuple[Claim, tuple[str, ...]]]:
        """Return all that is claimed, with the names of its tools, sorted."""
        return self._claims.items()

    def find(self, alias: str, names: Container[str]) -> str | None:
        """Return the name of the one tool that is meant, or None.

        Args:
            alias: The further name.
            names: The names of all tools, which come before further names.
        """
        holders = self._claims.get(alias, ())
        return holders[0] if len(holders) == 1 and alias not in names else None

    def changed(
        self, before: Mapping[str, Named], changes: Mapping[str, Named | None]
    ) -> AliasTable:
        """Return the table after some tools were changed by name; None removes.

        Args:
            before: The tools of this table, by name.
            changes: The tools that are different.
        """
        new = [
            tool
            for tool in changes.values()
            if tool is not None and (tool.aliases or tool.vcp_command)
        ]
        if not new and not self._claims:
            return self
        old = [tool for name in changes if (tool := before.get(name)) is not None]
        made = AliasTable()
        made._claims = dict(self._claims)
        for tool in old:
            made._drop_claims(tool)
        for tool in new:
            made._add_claims(tool)
        return made

    def _add_claims(self, tool: Named) -> None:
        for claim in _list_claims(tool):
            self._claims[claim] = tuple(sorted({*self._claims.get(claim, ()), tool.name}))

    def _drop_claims(self, tool: Named) -> None:
        for claim in _list_claims(tool):
            left = tuple(name for name in self._claims.pop(claim, ()) if name != tool.name)
            if left:
                self._claims[claim] = left


def _list_claims(tool: Named) -> Iterator[Claim]:
    yield from tool.aliases
    if tool.vcp_command is not None and (owner := owner_of(tool)):
        yield owner, tool.vcp_command


def owner_of(tool: Named) -> str:
    """Return the part of a tool's name before its method; empty: it has none."""
    return tool.name[: max(0, *(tool.name.rfind(joint) for joint in JOINTS))]


def list_commands(tool: Named) -> list[Any]:
    """Return a tool's listed commands; empty if it takes any text, or none."""
    command = tool.parameters_schema.get("properties", {}).get(COMMAND)
    if not isinstance(command, Mapping):
        return []
    return list(command.get("enum", [command["const"]] if "const" in command else []))
