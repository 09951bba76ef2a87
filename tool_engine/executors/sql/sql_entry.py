"""What does a definition's `entry` say about its statement, and is it right?

`check_entry` finds every mistake before the first call; `compile_entry` makes the executor's plan.
Nothing here opens a database.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from tool_engine.errors import DefinitionProblem
from tool_engine.executors.entry_reader import EntryReader
from tool_engine.executors.sql.statement import (
    Membership,
    Statement,
    StatementError,
    parse_statement,
)
from tool_engine.executors.templates import find_foreign_forms
from tool_engine.model.checks.nearness import suggest_near
from tool_engine.model.parameter import ToolParameter
from tool_engine.model.settings.databases import DatabaseSource
from tool_engine.model.tool import Tool
from tool_engine.redaction import describe_value

DEFAULT_MAX_ROWS: Final = 200
DEFAULT_MAX_COLUMNS: Final = 100
DEFAULT_MAX_BYTES: Final = 256 * 1024
"""The most bytes of JSON in the rows of one result."""

_LIMITS: Final = {
    "max_rows": (DEFAULT_MAX_ROWS, 100_000),
    "max_columns": (DEFAULT_MAX_COLUMNS, 2_000),
    "max_bytes": (DEFAULT_MAX_BYTES, 16 * 1024 * 1024),
}
_ENTRY_KEYS: Final = ("type", "handler", "sql", "source", "readonly", "config")
_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}", re.ASCII)
_ORDERS: Final = frozenset({"ASC", "DESC"})
_NO_STATEMENT_OF_A_TOOL: Final = {
    **dict.fromkeys(
        ("BEGIN", "START", "COMMIT", "END", "ROLLBACK", "ABORT", "SAVEPOINT", "RELEASE"),
        "the engine begins and ends the transaction of a call",
    ),
    **dict.fromkeys(
        ("SET", "RESET", "DISCARD", "LISTEN", "UNLISTEN", "PREPARE", "DEALLOCATE", "LOAD"),
        "a connection is used by one call after another and must stay as it is",
    ),
    **dict.fromkeys(
        ("ATTACH", "DETACH", "PRAGMA", "VACUUM", "COPY"),
        "a tool stays in the database of its source",
    ),
}
_INNER_WRITES: Final = frozenset({"INSERT", "UPDATE", "DELETE", "MERGE"})
_WRITES: Final = _INNER_WRITES | {
    *("REPLACE", "CREATE", "ALTER", "DROP", "TRUNCATE", "GRANT", "REVOKE", "COMMENT"),
    *("REINDEX", "REFRESH", "CLUSTER"),
}
_NAMED_SOURCE: Final = (
    'write source: shop here, and shop = "sqlite:///shop.db" below [sources] in tool-engine.toml, '
    "or sources={'shop': 'sqlite:///shop.db'} in the engine's configuration"
)
_EXAMPLE: Final = "SELECT name FROM shops WHERE id = :id"


class SQLPlan(msgspec.Struct, frozen=True):
    tool: str
    source: str
    statement: Statement
    is_readonly: bool
    lists: frozenset[str]
    """The parameters after IN that are lists."""
    choices: dict[str, frozenset[str]]
    """The permitted values of each parameter that chooses an identifier."""
    max_rows: int
    max_columns: int
    max_bytes: int


_POSITIONAL: Final = re.compile(r"%s|(?<=[\s(=,])\?")
"""A place as drivers of databases write it."""


class _SQLReader(EntryReader[SQLPlan]):
    def read(self) -> SQLPlan | None:
        entry = self.tool.implementation_config
        self.keys(entry, _ENTRY_KEYS, "entry")
        source = self._read_source(entry.get("source"))
        is_readonly = self._read_readonly(entry.get("readonly", True))
        limits = self._read_limits()
        statement = self._read_statement(entry.get("sql"))
        if statement is None:
            return None
        self._check_keyword(statement, is_readonly)
        self._check_names(statement)
        plan = SQLPlan(
            tool=self.tool.name,
            source=source,
            statement=statement,
            is_readonly=is_readonly,
            lists=self._find_lists(statement),
            choices=self._find_choices(statement),
            **limits,
        )
        return None if self.problems else plan

    def _read_source(self, source: Any) -> str:
        if isinstance(source, str) and source.strip():
            if "://" in source:
                message = "is the address of a database, and takes the name of one"
                self.problem("entry.source", f"{message}; {_NAMED_SOURCE}")
            return source
        got = "is missing" if source is None else f"must be a name, got {describe_value(source)}"
        self.problem("entry.source", f"{got}; name a database of the engine's sources")
        return ""

    def _read_readonly(self, value: Any) -> bool:
        if value is False:
            if self.tool.effect == "read":
                self.problem(
                    "entry.readonly",
                    "is false, and the effect of the tool is read; write effect: write, or "
                    "readonly: true",
                )
            return False
        if value is not True:
            self.problem("entry.readonly", f"must be true or false, got {describe_value(value)}")
        return True

    def _read_limits(self) -> dict[str, int]:
        config = self.config(tuple(_LIMITS))
        return {name: self._read_limit(name, config) for name in _LIMITS}

    def _read_limit(self, name: str, config: Mapping[str, Any]) -> int:
        default, maximum = _LIMITS[name]
        value = config.get(name, default)
        if type(value) is int and 0 < value <= maximum:
            return value
        self.problem(
            f"entry.config.{name}",
            f"must be a whole number between 1 and {maximum}, got {describe_value(value)}",
        )
        return default

    def _read_statement(self, sql: Any) -> Statement | None:
        if not isinstance(sql, str):
            got = "is missing" if sql is None else f"must be a text, got {describe_value(sql)}"
            self.problem("entry.sql", f"{got}; write a statement such as {_EXAMPLE}")
            return None
        try:
            return parse_statement(sql)
        except StatementError as error:
            self.problem("entry.sql", str(error))
            return None

    def _check_keyword(self, statement: Statement, is_readonly: bool) -> None:
        keyword = statement.keyword
        if reason := _NO_STATEMENT_OF_A_TOOL.get(keyword):
            self.problem("entry.sql", f"{keyword} is no statement of a tool: {reason}")
        elif is_readonly and (
            writes := {keyword} & _WRITES or statement.inner_keywords & _INNER_WRITES
        ):
            self.problem(
                "entry.sql",
                f"has {min(writes)}, which writes, and the tool is read-only; write readonly: "
                "false and effect: write",
            )

    def _check_names(self, statement: Statement) -> None:
        for name in sorted(statement.values | statement.identifiers):
            if name not in self.parameters:
                hint = suggest_near(name, self.parameters) or "; declare it under parameters"
                mark = f":{name}" if name in statement.values else f"{{{name}}}"
                self.problem("entry.sql", f"takes {mark}, which is not a declared parameter{hint}")
        used = statement.values | statement.identifiers
        sql = self.tool.implementation_config.get("sql")
        forms = {} if used.issuperset(self.parameters) else find_foreign_forms(sql)
        place = _POSITIONAL.search(str(sql))
        for name in self.parameters:
            if name not in used:
                self._report_unused(name, forms.get(name) or (place.group() if place else ""), sql)

    def _report_unused(self, name: str, form: str, sql: object) -> None:
        # In quotes it would be a text, not a place.
        quoted = next((f"'{each}'" for each in (form, f":{name}") if f"'{each}'" in str(sql)), form)
        where = f" in place of {quoted}" if quoted else ""
        cure = f"use it as :{name}{where}, or remove it"
        if not name.isidentifier():
            cure = "a place is written with letters, digits and _ only: rename it, or remove it"
        self.problem("entry.sql", f"never uses the parameter {name!r}; {cure}")

    def _find_lists(self, statement: Statement) -> frozenset[str]:
        found = set()
        for piece in statement.pieces:
            if not isinstance(piece, Membership) or piece.name not in self.parameters:
                continue
            if self.parameters[piece.name].type == "array":
                found.add(piece.name)
            elif not piece.has_parentheses:
                self.problem(
                    "entry.sql",
                    f"IN :{piece.name} needs a list; declare {piece.name!r} with type: array",
                )
        return frozenset(found)

    def _find_choices(self, statement: Statement) -> dict[str, frozenset[str]]:
        known = statement.identifiers & self.parameters.keys()
        return {name: self._read_choice(self.parameters[name]) for name in sorted(known)}

    def _read_choice(self, parameter: ToolParameter) -> frozenset[str]:
        path, name = "entry.sql", parameter.name
        found = _find_enum(parameter)
        if not found:
            self.problem(
                path,
                f"{{{name}}} is put into the text, so the parameter {name!r} needs an enum of all "
                f"that it may be; for a value write :{name}",
            )
            return frozenset()
        for member in found:
            if not isinstance(member, str) or not _IDENTIFIER.fullmatch(member):
                self.problem(
                    path,
                    f"{{{name}}} may only be the name of a column or table, of letters, digits and "
                    f"_, or ASC and DESC; its enum has {member!r}",
                )
        if not (parameter.required or parameter.has_default):
            self.problem(
                path, f"{{{name}}} cannot be left out; make {name!r} required, or give it a default"
            )
        return frozenset(str(member) for member in found)


check_entry = _SQLReader.check
compile_entry = _SQLReader.compile


def check_source(tool: Tool, sources: Mapping[str, DatabaseSource]) -> list[DefinitionProblem]:
    entry = tool.implementation_config
    name = entry.get("source")
    if not isinstance(name, str) or not name.strip():
        return []
    source = sources.get(name)
    path, message = "entry.source", ""
    if source is None:
        message = unknown_source(name, sources)
    elif source.readonly and entry.get("readonly") is False:
        path = "entry.readonly"
        message = f"is false, and the engine's source {name!r} is read-only"
    if not message:
        return []
    return [DefinitionProblem(message, file=tool.source or f"tool {tool.name!r}", path=path)]


def unknown_source(name: str, sources: Mapping[str, object]) -> str:
    hint = suggest_near(name, sources)
    if not hint:
        known = ", ".join(sorted(sources))
        hint = f"; it has {known}" if known else ""
    return (
        f"the engine has no source {name!r}{hint}; name it below [sources] in tool-engine.toml: "
        f'{name} = "sqlite:///...", or in the engine\'s configuration: '
        f"sources={{{name!r}: 'sqlite:///...'}}, or at the command line: "
        f"--source {name}=sqlite:///..."
    )


def is_order(choices: frozenset[str]) -> bool:
    return {choice.upper() for choice in choices} <= _ORDERS


def _find_enum(parameter: ToolParameter) -> list[Any]:
    found = parameter.validation.get("enum") or (parameter.schema or {}).get("enum")
    return found if isinstance(found, list) else []
