"""How do words like `count=3` become the arguments of a tool?

`key=value` is read by the type that the tool declares for `key`; `key:=json` is raw JSON;
`key=@file` is the text of a file. `--key value` is `key=value` of a declared parameter, and a JSON
object gives all of its keys. Whether the values are allowed, the engine's validation decides.
No error repeats the value of a secret parameter.
"""

from __future__ import annotations

import contextlib
import json
import math
import re
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from shlex import quote
from typing import Any, Final

from tool_engine.cli.documents import parse_json, read_document, read_text
from tool_engine.cli.failures import CommandError
from tool_engine.cli.usage import suggest_option
from tool_engine.model.tool import Tool
from tool_engine.redaction import HIDDEN, NO_SECRETS, OwnSecrets, is_secret_key, secrets_of

_OPTIONS: Final = ("--params", "--timeout", "--json", "--tools", "--records", "--help")
_SEE: Final = "; see tool-engine call --help"
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,4000}")
_LONGEST_MEANT: Final = 40
"""Characters of a text that is written anew, as it may have been meant."""
_ANY_ARRAY: Final = "[1, 2]"
_ANY_OBJECT: Final = '{"a": 1}'
_BOOLEANS: Final = {"true": True, "false": False}


def read_params(path: str | None) -> dict[str, Any]:
    """Read the arguments in a JSON or YAML file; `-` is stdin."""
    if path is None:
        return {}
    if path.lstrip().startswith("{") or ("=" in path and not Path(path).exists()):
        raise CommandError(
            "--params needs the path of a file, and this is what is in one; write it as a word of "
            "its own, without --params"
        )
    value = read_document(path)
    if not isinstance(value, dict):
        raise CommandError(
            f'{path}: --params needs one object of arguments, such as {{"message": "hi"}}, '
            f"got {type(value).__name__}"
        )
    return value


def parse_arguments(
    tool: Tool, words: Iterable[str], known: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the arguments that `words` spell out for `tool`.

    `known` are the arguments from elsewhere, whose secrets are not shown either.

    Example:
        `parse_arguments(tool, ["count=3", "tags:=[1, 2]"])` is `{"count": 3, "tags": [1, 2]}` when
        the tool declares `count` as an integer.
    """
    types = {parameter.name: parameter.type for parameter in tool.parameters}
    arguments: dict[str, Any] = {}
    rest = deque(words)
    secrets = _find_secrets(tool, rest, known or {})
    while rest:
        word = rest.popleft()
        try:
            read = _read_word(word, rest, types, secrets)
        except CommandError as error:
            # A path, say, may be the value of a secret that was typed elsewhere.
            raise CommandError(secrets.hide_text(str(error))) from error
        for key, value in read:
            if key in arguments:
                raise CommandError(f"the argument {key!r} is given twice; give it once")
            arguments[key] = value
    return arguments


def _find_secrets(tool: Tool, words: Iterable[str], known: Mapping[str, Any]) -> OwnSecrets:
    """Return the secrets in words that may not be readable."""
    if not (tool.secret_names or tool.secret_parts):
        return NO_SECRETS
    sent = dict(known)
    names = {parameter.name for parameter in tool.parameters}
    for key, value in _read_sent(list(words), names):
        # Behind an `@` may stand the secret itself, in place of a path.
        is_path = isinstance(value, str) and value.startswith("@")
        sent.setdefault(key, [value, value[1:]] if is_path else value)
    return secrets_of(tool, sent)


def _read_sent(words: list[str], names: Collection[str]) -> Iterable[tuple[str, Any]]:
    """Yield what words seem to say, as `_read_word` would read them."""
    for word, following in zip(words, [*words, ""][1:], strict=True):
        key, equals, text = word.partition("=")
        if word.lstrip().startswith("{"):
            with contextlib.suppress(ValueError, RecursionError):
                yield from json.loads(word).items()
        elif word.startswith("--"):
            name = key.removeprefix("--")
            yield name if name in names else name.replace("-", "_"), text if equals else following
        elif equals:
            yield key.removesuffix(":"), text


def example_arguments(tool: Tool) -> list[str]:
    """Return words for the required parameters of `tool`, ready to type; of its first example."""
    for example in tool.examples[:1]:
        if not tool.secret_names:
            return [_write_word(*each) for each in example.get("params", {}).items()]
    return [
        f"{parameter.name}={_example_value(parameter.type, parameter.validation)}"
        for parameter in tool.parameters
        if parameter.required
    ]


def _write_word(key: str, value: Any) -> str:
    if isinstance(value, str):
        return f"{key}={quote(value)}"
    return f"{key}:={quote(json.dumps(value, ensure_ascii=False))}"


def _read_word(
    word: str, rest: deque[str], types: Mapping[str, str], secrets: OwnSecrets
) -> Iterable[tuple[str, Any]]:
    """Return the arguments of a word, with the next one where needed."""
    if word.startswith("--"):
        return [_parse_word(_rewrite_option(word, rest, types), types, secrets)]
    if word.lstrip().startswith("{"):
        try:
            value = parse_json(word, "the arguments")
        except CommandError as error:
            example = json.dumps(dict(_write_example(types)), ensure_ascii=False)
            raise CommandError(f"{error}; write one object, such as {quote(example)}") from error
        # An object, as it begins with a brace.
        return list(value.items())
    return [_parse_word(word, types, secrets)]


def _parse_raw(key: str, text: str) -> Any:
    try:
        return parse_json(text, f"{key}:=")
    except CommandError as error:
        raise CommandError(f"{error}; for what is no JSON write {key}=...") from error


def _write_example(types: Mapping[str, str]) -> Iterable[tuple[str, Any]]:
    """Yield an argument that a tool takes."""
    values = {"integer": 1, "number": 1, "boolean": True, "array": [], "object": {}}
    for key, kind in list(types.items())[:1]:
        yield key, values.get(kind, "...")


def _place_before(option: str) -> str:
    """Return the cure for an option of the program behind `call`."""
    is_before = option in ("--source", "--directory", "--recursive", "--cluster", "--path")
    return f"; write it before `call`: `tool-engine {option} ... call`" if is_before else ""


def _rewrite_option(word: str, rest: deque[str], types: Mapping[str, str]) -> str:
    """Rewrite `--key value` as `key=value`."""
    name, equals, text = word.removeprefix("--").partition("=")
    key = name if name in types else name.replace("-", "_")
    if key not in types:
        known = [*(f"--{each}" for each in types), *_OPTIONS]
        cure = _place_before(f"--{name}") or suggest_option(name, known) or _SEE
        raise CommandError(f"{f'--{name}'!r} is no option, and no parameter of the tool{cure}")
    if equals:
        return f"{key}={text}"
    if types[key] == "boolean" and (not rest or rest[0] not in _BOOLEANS):
        return f"{key}=true"
    if not rest:
        raise CommandError(f"{word!r} has no value; write {key}=value")
    return f"{key}={rest.popleft()}"


def _parse_word(word: str, types: Mapping[str, str], secrets: OwnSecrets) -> tuple[str, Any]:
    key, equals, text = word.partition("=")
    is_raw = key.endswith(":")
    key = key.removesuffix(":")
    if not equals or not key:
        # Of a tool with secrets, a word without a name may be one.
        is_shown = secrets is NO_SECRETS
        example = _example_of((text if equals else word) if is_shown else "", types)
        if is_shown and (named := _example_named(word, types)):
            example = named
        raise CommandError(
            f"{word if is_shown else HIDDEN!r} is no argument; write key=value, key:=json or "
            f"key=@file, such as {example}"
        )
    kind = types.get(key, "string")
    try:
        if is_raw:
            return key, _parse_raw(key, text)
        if text.startswith("@"):
            text = read_text(text[1:])
        return key, _CONVERTERS.get(kind, _read_string)(key, text, secrets)
    except CommandError as error:
        if key not in secrets.names and not is_secret_key(key):
            raise
        raise CommandError(
            f"the value of {key!r}, which is secret, cannot be read; write {key}="
            f"{_example_value(kind, {})}, {key}:=json or {key}=@file with a file that is there"
        ) from error


def _example_named(word: str, types: Mapping[str, str]) -> str:
    """Return the argument that a word means which names its parameter; empty: it names none."""
    key, colon, text = word.lstrip("-").partition(":")
    if key not in types:
        return ""
    return f"{key}={quote(text) if colon and text else _example_value(types[key], {})}"


def _example_of(text: str, types: Mapping[str, str]) -> str:
    """Return an argument that `text` may mean, or else any example."""
    if 0 < len(text) <= 40:
        for key, kind in types.items():
            try:
                _CONVERTERS.get(kind, _read_string)(key, text, NO_SECRETS)
            except CommandError:
                continue
            return f"{key}={quote(text)}"
    key, kind = next(iter(types.items()), ("message", "string"))
    return f"{key}={_example_value(kind, {})}"


def _read_string(key: str, text: str, secrets: OwnSecrets) -> str:
    return text


def _read_integer(key: str, text: str, secrets: OwnSecrets) -> int:
    if _INTEGER.fullmatch(text.strip()) is None:
        raise CommandError(
            f"{key!r} is an integer, {_show_text(text, secrets)} is none; write one, such as "
            f"{key}=5"
        )
    return int(text)


def _read_number(key: str, text: str, secrets: OwnSecrets) -> int | float:
    if _INTEGER.fullmatch(text.strip()):
        return int(text)
    try:
        value = float(text) if text.isascii() and "_" not in text else math.nan
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise CommandError(
            f"{key!r} is a number, {_show_text(text, secrets)} is none; write one, such as "
            f"{key}=2.5"
        )
    return value


def _read_boolean(key: str, text: str, secrets: OwnSecrets) -> bool:
    if text not in _BOOLEANS:
        raise CommandError(
            f"{key!r} is a boolean, {_show_text(text, secrets)} is none; write {key}=true or "
            f"{key}=false"
        )
    return _BOOLEANS[text]


def _read_array(key: str, text: str, secrets: OwnSecrets) -> Any:
    return _json_of(key, text, secrets, list)


def _read_object(key: str, text: str, secrets: OwnSecrets) -> Any:
    return _json_of(key, text, secrets, dict)


def _json_of(key: str, text: str, secrets: OwnSecrets, kind: type) -> Any:
    noun = "an array" if kind is list else "an object"
    meant = _write_array(secrets.hide_text(text)) if kind is list else _ANY_OBJECT
    example = f"{key}={quote(meant)}"
    if meant in (_ANY_ARRAY, _ANY_OBJECT):
        example = f"one, such as {example}"
    try:
        value = parse_json(text, key)
    except CommandError as error:
        raise CommandError(f"{key!r} is {noun}, in JSON; write {example} ({error})") from error
    if not isinstance(value, kind):
        raise CommandError(
            f"{key!r} is {noun}, {_show_text(text, secrets)} is none; write {example}"
        )
    return value


def _write_array(text: str) -> str:
    """Return the JSON array that a text may mean which is none, or else any."""
    if not text.strip() or text.lstrip()[0] in '[{"' or len(text) > _LONGEST_MEANT:
        return _ANY_ARRAY
    parts = [part.strip() for part in text.split(",")]
    is_numbers = all(map(_INTEGER.fullmatch, parts))
    return json.dumps([int(part) if is_numbers else part for part in parts], ensure_ascii=False)


_CONVERTERS: Final[Mapping[str, Callable[[str, str, OwnSecrets], Any]]] = {
    "string": _read_string,
    "integer": _read_integer,
    "number": _read_number,
    "boolean": _read_boolean,
    "array": _read_array,
    "object": _read_object,
}


def _show_text(text: str, secrets: OwnSecrets) -> str:
    text = secrets.hide_text(text)
    return repr(text if len(text) <= 60 else text[:57] + "...")


def _example_value(kind: str, validation: Mapping[str, Any]) -> str:
    choices = validation.get("enum")
    if choices:
        return str(choices[0])
    if kind in ("integer", "number"):
        return str(validation.get("min", 1))
    return {"boolean": "true", "array": "'[]'", "object": "'{}'"}.get(kind, "...")
