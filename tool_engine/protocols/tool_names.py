"""Under which name does a provider know a tool, and which tool does a name in a reply mean?

A name that the provider takes stays as it is. Any other one is written in its characters and ends
in `__` and a hash of the whole name. A name of that very form is written so too, so that no tool
has the name that stands for another. The sent name depends only on the tool's own name: it is the
same in every process, in any order, and after every reload.
"""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple, Protocol

from tool_engine.errors import ConfigurationError
from tool_engine.interfaces.source import Source, find_for_model
from tool_engine.model.checks.aliases import owner_of
from tool_engine.model.tool import Tool
from tool_engine.sources.foreign import as_source

_HASH_LENGTHS: Final = (12, 24, 48)
"""The longer ones are for two names whose hashes begin alike."""
_REPLACED: Final = re.compile(r".*__(?:[0-9a-f]{12}){1,4}", re.DOTALL)
_FIRST: Final = "tool_"
"""A prefix for names whose first character no provider accepts there."""


Commanded = Mapping[tuple[str, str], list[Tool]]
"""Tools by the part of their names before the method, and their `vcp_command`."""


def list_commanded(tools: Iterable[Tool]) -> Commanded:
    """Return the tools whose definitions have a command, for models, by owner and command."""
    found: dict[tuple[str, str], list[Tool]] = {}
    for tool in tools:
        owner = owner_of(tool)
        if tool.vcp_command is not None and tool.is_offered and owner:
            found.setdefault((owner, tool.vcp_command), []).append(tool)
    return found


class NameRule(NamedTuple):
    pattern: re.Pattern[str]
    max_length: int
    words: str

    def accepts(self, name: str) -> bool:
        return len(name) <= self.max_length and self.pattern.fullmatch(name) is not None

    def spell(self, name: object) -> str:
        if not isinstance(name, str) or not name:
            return "unnamed"
        if self.accepts(name):
            return name
        spelling = (char if self.accepts(char) else "_" for char in name)
        return "".join(spelling)[: self.max_length]


ANY_NAME: Final = NameRule(re.compile(r"[\s\S]+"), 10_000, "any character")
"""The rule of the text protocols: no provider checks their names."""


class ToolCatalog(Protocol):
    """A place to look tools up: an engine, `engine.index` or a `dict`.

    One that also has `list_all()`, or is a mapping, resolves a name that another process has sent;
    `generation` shows when its tools have changed.
    """

    def get(self, name: str, /) -> Tool | None:
        """Return the tool of that name, or None."""


class KnownTools:
    """The tools that a model knows, and their names in requests.

    Args:
        rule: Which names the provider takes.
        tools: Tools that are known from the start, or where to look them up.
    """

    def __init__(self, rule: NameRule, tools: Iterable[Tool] | ToolCatalog | None = None) -> None:
        self._rule = rule
        self.with_tasks = False
        """Whether a reader of the definitions can start tasks."""
        self._tools: dict[str, Tool] = {}
        self._sent: dict[str, str] = {}
        """Tool name -> the name that was sent for it. Never forgotten: a reply may be late."""
        self._meant: dict[str, str] = {}
        self._commanded: Commanded | None = None
        self._sorted: list[str] = []
        """The sent names, sorted for the last search by prefix."""
        self._catalog: Source | None = None
        self._listed: tuple[object, dict[str, str]] | None = None
        """The state of the catalog at the last listing, and the sent names of its tools."""
        if isinstance(tools, Mapping) or hasattr(tools, "get"):
            self._catalog = as_source(tools)
        elif tools is not None:
            self.learn(tools)

    def __repr__(self) -> str:
        return f"KnownTools({len(self._tools)} told of, {len(self._sent)} names sent)"

    def learn(self, tools: Iterable[Tool]) -> list[Tool]:
        """Remember tools for the model, and list each of them once.

        Those for code only are left out, and those that run only as a task unless `with_tasks`.

        Raises:
            ConfigurationError: Two different tools have one name, or something is no tool.
        """
        listed: dict[str, Tool] = {}
        for tool in _check_tools(tools):
            if not (tool.is_offered or (self.with_tasks and tool.is_for_models)):
                continue
            known = listed.setdefault(tool.name, tool)
            if known is not tool and known != tool:
                raise ConfigurationError(
                    f"two tools are named {tool.name!r}, of which a model could call only one: "
                    "rename one, or put their engines into CombinedTools"
                )
        self._commanded = None
        for tool in listed.values():
            self._tools[tool.name] = tool
            if tool.name not in self._sent:
                sent = self.sent_name(tool.name)
                self._sent[tool.name] = sent
                self._meant[sent] = tool.name
        return list(listed.values())

    def get(self, name: str) -> Tool | None:
        known = self._tools.get(name)
        if known is not None or self._catalog is None:
            return known
        return find_for_model(self._catalog, name)

    def get_commanded(self, owner: str, command: str) -> Tool | None:
        """Return the one tool of an owner that was described with this command. X2."""
        if self._commanded is None:
            self._commanded = list_commanded(self._tools.values())
        found = self._commanded.get((owner, command), ())
        return found[0] if len(found) == 1 else None

    def sent_name(self, name: str) -> str:
        sent = self._sent.get(name)
        if sent is None:
            # Not kept: a model may have made up the name.
            is_replaced = self._is_replaced(name)
            if not is_replaced and name not in self._meant:
                return name
            stand_ins = self._make_stand_ins(name) if is_replaced else [name]
            sent = next(free for free in stand_ins if free not in self._meant)
        return sent

    def meant_name(self, sent: str) -> str:
        """Return the tool's own name for a name in a reply.

        That may be the name that was sent, here or by another process, or the tool's own name,
        which a model copies from a description. Any other name stays as it is.
        """
        meant = self._meant.get(sent)
        if meant is not None:
            return meant
        return self._list_catalog_names().get(sent, sent) if _is_stand_in(sent) else sent

    def is_beginning(self, sent: str) -> bool:
        """Return True if a sent name begins so: some arrive in pieces."""
        if len(self._sorted) != len(self._meant):
            self._sorted = sorted(self._meant)
        place = bisect_right(self._sorted, sent)
        return place < len(self._sorted) and self._sorted[place].startswith(sent)

    def _list_catalog_names(self) -> Mapping[str, str]:
        """Map sent names to tool names, if the catalog lists its tools."""
        if self._catalog is None:
            return {}
        state = self._catalog.generation
        if self._listed is None or state is None or self._listed[0] != state:
            tools = self._catalog.list_all()
            names = (tool.name for tool in tools if tool.is_for_models)
            replaced = (name for name in names if self._is_replaced(name))
            self._listed = (state, {self._make_stand_ins(name)[0]: name for name in replaced})
        return self._listed[1]

    def _is_replaced(self, name: str) -> bool:
        return not self._rule.accepts(name) or ("__" in name and _is_stand_in(name))

    def _make_stand_ins(self, name: str) -> list[str]:
        digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
        plain = re.sub(r"[^A-Za-z0-9_-]", "_", name).strip("_-") or "tool"
        if not self._rule.accepts(plain[:1]):
            plain = f"{_FIRST}{plain}"
        space = self._rule.max_length - 2
        return [f"{plain[: space - length]}__{digest[:length]}" for length in _HASH_LENGTHS]


def _is_stand_in(name: str) -> bool:
    return _REPLACED.fullmatch(name) is not None


def _check_tools(tools: Any) -> Iterator[Tool]:
    if isinstance(tools, Tool) or not isinstance(tools, Iterable):
        raise ConfigurationError(
            f"tools must be a list of tools, such as engine.list_all(), got {tools!r:.80}"
        )
    for tool in tools:
        if type(tool) is not Tool and not isinstance(tool, Tool):
            raise ConfigurationError(
                f"each of the tools must be a Tool, such as engine.get('name'), got {tool!r:.80}"
            )
        yield tool
