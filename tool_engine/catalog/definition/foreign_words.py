"""Which words of other formats may an author mean?"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any, Final

import msgspec

from tool_engine.catalog.definition.keywords import KEYWORDS
from tool_engine.model.checks.nearness import find_nearest
from tool_engine.model.json.references import copy_schemas
from tool_engine.model.schema import SHORT_KEYS, VALIDATION_KEYS

SCHEMA_KEYS: Final = frozenset({"inputSchema", "input_schema"})
"""Keys under which other formats have the JSON Schema of all parameters."""
MISPLACED_SCHEMA: Final = "move what it holds to parameters, which stands beside name"
"""The cure for such a key anywhere but there."""
DOCUMENTS: Final = "write each definition as a document, with a line --- between two"
"""The cure for definitions in a list."""
_SIGNS: Final = ("properties", "$ref", "allOf", "anyOf", "oneOf")
_ONLY_SHORT: Final = (VALIDATION_KEYS | {"validation", "schema"}) - KEYWORDS
_ONLY_SCHEMA: Final = (
    (KEYWORDS | {"$schema"}) - VALIDATION_KEYS - {"type", "description", "default"}
)
_OTHER_NAMES: Final = {
    **{keyword: key for key, keyword in SHORT_KEYS.items() if keyword != key},
    "returns_schema": "output",
    "outputSchema": "output",
    "output_schema": "output",
    "title": "description",
    "params": "parameters",
    **dict.fromkeys(("retries", "max_retries", "max_attempts"), "attempts"),
    **dict.fromkeys(("rate_limit", "ratelimit", "requests_per_minute", "rpm"), "rate"),
    **dict.fromkeys(("uri", "endpoint", "base_url"), "url"),
    **dict.fromkeys(("command", "cmd"), "argv"),
    **dict.fromkeys(("delay", "interval"), "backoff"),
    "transport": "type",
    **dict.fromkeys(("workdir", "working_dir", "working_directory"), "cwd"),
    **dict.fromkeys(("max_concurrent", "max_concurrency", "max_parallel", "parallel"), "key_limit"),
    **dict.fromkeys(("executor", "function", "func", "callable"), "handler"),
    **dict.fromkeys(("body", "data", "payload"), "json"),
    "properties": "parameters",
    **dict.fromkeys(
        ("approval", "approve", "confirm", "confirmation", "consent", "require_confirmation"),
        "permission",
    ),
}
"""Words of other formats -> the key that says it here, perhaps in another mapping."""
_HANDLERS: Final = {
    **dict.fromkeys(("sql", "database", "sqlite", "postgres", "postgresql"), "sql_query"),
    **dict.fromkeys(("command", "cmd", "exec", "process", "program", "cli"), "run_command"),
    **dict.fromkeys(("shell", "bash", "script"), "run_shell_command"),
    **dict.fromkeys(
        ("file", "files", "filesystem"),
        "read_file, or write_file, edit_file, read_folder or search_files",
    ),
}
"""A word written as a type -> the built-in handler that it means."""
_TYPES: Final = {
    **dict.fromkeys(("function", "code", "py", "module"), "python"),
    **dict.fromkeys(("api", "rest", "https", "url", "web", "request"), "http"),
    **dict.fromkeys(("get", "post", "put", "patch", "delete"), "http"),
    **dict.fromkeys(("js", "node"), "javascript"),
    **dict.fromkeys(("steps", "pipeline", "chain"), "workflow"),
}
_OF_MODELS: Final = frozenset(("agent", "llm", "ai", "prompt", "chat", "model"))
_IN_REQUESTS: Final = {"params": "query", "query_params": "query", "authorization": "auth"}
_VALUE_TYPES: Final = {
    **dict.fromkeys(("text", "date", "datetime", "time", "uuid", "email", "url"), "string"),
    **dict.fromkeys(("float", "double", "decimal"), "number"),
    **dict.fromkeys(("list", "tuple", "set"), "array"),
    **dict.fromkeys(("dict", "map", "mapping", "json"), "object"),
    **dict.fromkeys(("api_key", "apikey", "key"), "header"),
    **dict.fromkeys(("token", "jwt"), "bearer"),
    **dict.fromkeys(("oauth", "client_credentials"), "oauth2"),
}
"""A word of a language, of a database or of an API -> the type of a parameter or of `auth`."""
_AT_THE_TOP: Final = (
    "write its name, description and parameters at the top of the definition, without type, "
    "function and strict"
)
_KEY_CURES: Final = {
    **dict.fromkeys(
        ("pagination", "paging", "paginate"), "write it in response: {pages: {next: ...}}"
    ),
    **dict.fromkeys(
        ("verify", "verify_ssl", "ssl_verify", "insecure", "skip_verify"),
        "leave it out: certificates are always checked, and SSL_CERT_FILE names those to trust",
    ),
    "required": "write required: true into each parameter that a call must have",
    "optional": "leave it out: a parameter is needed only where it says required: true",
    "function": "write what it holds at the top of the definition, and leave out type: function",
}
"""A key of other formats that has no place here -> what is written instead."""
_TYPES_OF_ENTRIES: Final = {
    "request": "http",
    "steps": "workflow",
    **dict.fromkeys(("argv", "sql", "root"), "builtin"),
    **dict.fromkeys(("server", "tool"), "mcp"),
}
"""A key of an entry -> the type of the entries that have it."""
_FILE_HANDLERS: Final = ("read_file", "write_file", "edit_file", "read_folder", "search_files")
_IN_CONFIG: Final = "config"
_OF_FILES: Final = {
    **dict.fromkeys(("path", "folder", "dir", "directory", "base", "cwd"), "root"),
    **dict.fromkeys(("max_bytes", "ignore"), _IN_CONFIG),
}
_OF_RUNNERS: Final[Mapping[str, Mapping[str, str]]] = {
    "sql_query": {
        **dict.fromkeys(("query", "statement", "select"), "sql"),
        **dict.fromkeys(("database", "db", "connection", "url", "dsn"), "source"),
        "read_only": "readonly",
        **dict.fromkeys(("max_rows", "max_columns", "max_bytes"), _IN_CONFIG),
    },
    **dict.fromkeys(_FILE_HANDLERS, _OF_FILES),
    "run_command": dict.fromkeys(
        ("env", "inherit", "ok_exit_codes", "max_output", "may_be_option"), _IN_CONFIG
    ),
    "mcp": {"name": "tool"},
}
"""What runs an entry -> what its keys are called by others, or that they stand in its config."""
_RUNNERS: Final = {"argv": "run_command", "sql": "sql_query"}
_CURES_OF_RUNNERS: Final[Mapping[str, Mapping[str, str]]] = {
    "mcp": dict.fromkeys(
        ("url", "command", "args", "env", "headers", "transport"),
        "a server is a definition of its own, with kind: mcp_server; write server: NAME here",
    ),
    "sql_query": {"params": "leave it out: the statement has each parameter as :name"},
    "python": dict.fromkeys(
        ("code", "script", "source_code"),
        "write it as a function of a module, and handler: module:function here",
    ),
}
_MODEL_CURES: Final = dict.fromkeys(
    ("prompt", "system_prompt", "model", "messages"),
    "leave it out: no entry asks a model, but a function of yours may",
)
_LONGEST_CURE: Final = 1_000
_ARGS: Final = "args"
_COMMAND_LINES: Final = ("argv", _ARGS)
_FORM: Final = (
    "write a list, with a mapping for each parameter: "
    '[{"name": "q", "type": "string", "required": true, "description": "what it is"}]'
)
_UNQUOTED: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*")
_NO_KEY: Final = re.compile("[^a-z0-9_]")
"""Stands in what is the rest of a text, and in no key that is misspelt."""
_WORDS: Final = frozenset(("true", "false", "yes", "no", "on", "off", "null", "y", "n"))


def meant_key(key: str, known: Iterable[str]) -> str:
    listed = list(known)
    for habit in (meant_word(key), _IN_REQUESTS.get(key)):
        if habit in listed:
            return str(habit)
    return find_nearest(key, listed)


def meant_in_entry(key: str, entry: Mapping[str, Any]) -> tuple[str, str]:
    """Return what a key means to what runs an entry: another key, `config`, or a cure.

    Example:
        >>> meant_in_entry("query", {"type": "builtin", "handler": "sql_query"})
        ('sql', '')
    """
    named = str(entry.get("handler") or _HANDLERS.get(str(entry.get("type")).lower(), ""))
    by_key = next((_RUNNERS[each] for each in entry if each in _RUNNERS), "")
    runner = named.partition(",")[0] or by_key or str(entry.get("type"))
    meant = _OF_RUNNERS.get(runner, {}).get(key, "")
    if meant and meant not in entry:
        return meant, ""
    if key in ("module", "function") and entry.get("type") == "python":
        words = ((each, entry.get(each)) for each in ("module", "function"))
        place = ":".join(word if isinstance(word, str) else each for each, word in words)
        return "", f"write handler: {place[:80]}"
    return "", _CURES_OF_RUNNERS.get(runner, {}).get(key) or _MODEL_CURES.get(key, "")


def key_cure(key: str) -> str:
    return _KEY_CURES.get(key, "")


def meant_word(key: str) -> str:
    """Return the key that a word of other formats means, or the word itself."""
    return _OTHER_NAMES.get(key, key)


def meant_type(value: str) -> str:
    return _TYPES.get(value.lower(), "")


def meant_value_type(value: str) -> str:
    return _VALUE_TYPES.get(value.lower(), "")


def entry_type_cure(value: str, types: Iterable[str]) -> str:
    """Return the cure for a handler written as a type."""
    kinds = import_module("tool_engine.catalog.definition.starter").KINDS
    name = value.lower()
    is_type = name in types
    if name in _OF_MODELS:
        return "write type: python, handler: module:function, a function that asks the model"
    handler = _HANDLERS.get(name) or (name if name in kinds and not is_type else "")
    return f"write type: builtin, handler: {handler}" if handler else ""


def missing_type_cure(entry: Any) -> str:
    """Return the cure for an entry that does not say its type."""
    if not isinstance(entry, dict):
        return ""
    kind = next((_TYPES_OF_ENTRIES[key] for key in entry if key in _TYPES_OF_ENTRIES), "")
    handler = entry.get("handler")
    if not kind and isinstance(handler, str):
        kind = "python" if ":" in handler or "." in handler else "builtin"
    return f"add it: type: {kind}" if kind else ""


def find_split_texts(mapping: Any) -> dict[str, str]:
    """Return the keys that are the rest of a text after its comma, and the cure.

    Example:
        >>> find_split_texts({"description": "Where", "such as Oslo": None, "type": "string"})
        {'such as Oslo': 'put quotation marks round the text: description: "Where, such as Oslo"'}
    """
    cures: dict[str, str] = {}
    begun = ""
    texts: list[str] = []
    rests: list[str] = []

    def note() -> None:
        if any(_NO_KEY.search(each) for each in rests):
            text = json.dumps(", ".join(texts + rests), ensure_ascii=False)
            shown = f": {begun}: {text}" if len(text) <= _LONGEST_CURE else f" of {begun}"
            cure = f"put quotation marks round the text{shown}"
            cures.update(dict.fromkeys(rests, cure))

    for key, value in mapping.items() if isinstance(mapping, dict) else ():
        if value is None and texts and isinstance(key, str):
            rests.append(key)
            continue
        note()
        begun, texts, rests = key, [value] if isinstance(value, str) else [], []
    note()
    return cures


def find_foreign_form(definition: Mapping[str, Any]) -> tuple[str, str]:
    """Return the key that shows another API's form of a tool, and the cure, or two empty texts.

    Example:
        >>> find_foreign_form({"type": "function", "function": {"name": "add"}})[0]
        'function'
    """
    held = definition.get("function")
    if isinstance(held, dict) and "name" not in definition:
        return "function", _AT_THE_TOP
    if definition.get("type") == "function" and "name" in definition:
        also = ", and strict" if "strict" in definition else ""
        return "type", f"leave it out{also}; entry says what runs the tool"
    if isinstance(definition.get("mcpServers"), dict):
        return "mcpServers", "save it as .mcp.json, or write each server with kind: mcp_server"
    for key in ("functionDeclarations", "function_declarations"):
        if isinstance(definition.get(key), list):
            return key, "write each of its entries as a definition of its own"
    return "", ""


def are_definitions(value: Any) -> bool:
    """Return True for a list of mappings of which each says a name and more."""
    if not isinstance(value, list) or not value:
        return False
    return all(isinstance(each, dict) and "name" in each and len(each) > 1 for each in value)


def list_cure(key: object, text: str) -> str:
    try:
        # A command line may have quotes of its own.
        is_command = key in _COMMAND_LINES
        words = shlex.split(text) if is_command else text.strip("[]").split(",")
    except ValueError:
        words = [text]
    # Arguments of a server stand in JSON and TOML as well.
    write = _in_json if key == _ARGS else _in_yaml
    cure = f"write it as a list: [{', '.join(write(word.strip()) for word in words)}]"
    return cure if len(cure) <= _LONGEST_CURE else "write it as a list"


def is_root_schema(value: Mapping[str, Any]) -> bool:
    """Return True if a mapping is the schema of an object, and no list of names."""
    if value.get("type") == "object":
        return True
    properties = value.get("properties", {})
    are_schemas = isinstance(properties, dict) and all(
        isinstance(each, dict | bool) for each in properties.values()
    )
    return are_schemas and any(isinstance(value.get(key), dict | list | str) for key in _SIGNS)


def as_output_spec(spec: Any) -> Any:
    """Return what `output` says in short keys; JSON Schema as it is pasted stands under `schema`.

    It is one if some part of it has a keyword that is no short key, and none a short key that is no
    keyword.
    """
    if not isinstance(spec, dict):
        return spec
    keys = {key for _, node in copy_schemas(spec) for key in node}
    is_schema = not keys.isdisjoint(_ONLY_SCHEMA) and keys.isdisjoint(_ONLY_SHORT)
    return {"schema": {key: spec[key] for key in spec if key != "$schema"}} if is_schema else spec


def schema_cure(value: Mapping[str, Any]) -> str:
    """Write a mapping of parameters as this format's list."""
    listed = _from_names(value)
    # A parameter has one type; how to write one of several is left to its author.
    if not listed or not all(isinstance(each.get("type"), str) for each in listed):
        return _FORM
    text = msgspec.json.encode([{"description": "what it is", **each} for each in listed]).decode()
    if len(text) > _LONGEST_CURE:
        return _FORM
    return f"write a list, with a mapping for each parameter: {text}"


def _from_names(value: Mapping[str, Any]) -> list[dict[str, Any]]:
    if not all(isinstance(each, str | Mapping) for each in value.values()):
        return []
    return [
        {"name": name, **({"type": each} if isinstance(each, str) else each)}
        for name, each in value.items()
    ]


def _in_yaml(word: str) -> str:
    is_plain = _UNQUOTED.fullmatch(word) and word.lower() not in _WORDS
    return word if is_plain else _in_json(word)


def _in_json(word: str) -> str:
    return msgspec.json.encode(word).decode()
