"""Which secrets was a call sent, by what the schema of its tool says?

Also those under a misspelt name, and in a form that hides which part of it is secret.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final

from tool_engine.model.checks.nearness import find_nearest
from tool_engine.model.json.references import (
    copy_schemas,
    resolve_pointer,
    resolve_schema,
    split_pointer,
)
from tool_engine.model.json.secret_schema import UNNAMED, write_only_names
from tool_engine.model.tool import SCALARS, Tool
from tool_engine.redaction.own import NO_SECRETS, SHORTEST, OwnSecrets

_MOST: Final = 200
_OTHER_KEYS: Final = ("additionalProperties", "unevaluatedProperties")
_ITEMS: Final = ("items", "unevaluatedItems", "contains")


def secrets_of(tool: Tool, params: Mapping[str, Any], *, shortest: int = SHORTEST) -> OwnSecrets:
    """Return a tool call's secrets, also those sent under a misspelt name."""
    names, parts = tool.secret_names, tool.secret_parts
    if not names and not parts:
        return NO_SECRETS
    whole = tool.parameters_schema
    schemas = {each.name: each.schema for each in tool.parameters}
    if tool.input_schema is None:
        schemas = whole["properties"]
    misspelt = frozenset(_find_misspelt(params, schemas, names | parts))
    if UNNAMED in parts:
        known = () if whole.get("writeOnly") is True else schemas
        misspelt |= {name for name in params if name not in known}
    if parts:
        forms = _list_forms(whole, whole)
        misspelt |= {name for name in params if _is_unlike(name, params[name], forms, whole)}
        parts |= frozenset(_misspelt_inside(params, whole, parts))
    return OwnSecrets(
        params,
        names | misspelt,
        parts,
        filled=[
            value
            for name, value in tool.secret_defaults
            if name is None or params.get(name) is None
        ],
        declared=tool.declared_keys,
        shortest=shortest,
    )


def _is_unlike(name: str, value: Any, forms: list[dict[str, Any]], whole: Any) -> bool:
    # Also an argument without a name in the schema.
    placed = _walk_parts({name: value}, forms)
    return any(any(find_unlike(value, schema, whole)) for _, schema in placed)


def find_unlike(value: Any, schema: Any, whole: Any) -> Iterator[bool]:
    """Yield True for each value in the wrong form where secrets belong.

    For example an object sent as a text: it has no keys that could mark its secrets.

    Args:
        value: What was sent.
        schema: What it must be, as JSON Schema.
        whole: The schema that has the definitions.
    """
    if value is None or not isinstance(schema, dict):
        return
    meant = resolve_schema(whole, schema)
    kind = meant.get("type") if isinstance(meant, dict) else None
    is_whole = isinstance(value, Mapping | list | tuple)
    is_text = isinstance(value, str) and value.lstrip()[:1] in ("{", "[")
    # The schema is searched last, for that takes longest.
    is_like = not (is_whole or is_text or kind in ("object", "array"))
    if is_like or not any(write_only_names(_add_definitions(schema, whole))):
        return
    if (isinstance(value, Mapping) and kind != "array") or (
        isinstance(value, list | tuple) and kind != "object"
    ):
        for item, below in _walk_parts(value, _list_forms(schema, whole)):
            yield from find_unlike(item, below, whole)
    else:
        yield True


def _add_definitions(schema: dict[str, Any], whole: Any) -> dict[str, Any]:
    """Return a schema with all that its references lead to, under the names they have."""
    named: dict[str, Any] = {}
    waiting: list[Any] = [schema]
    while waiting:
        for _, part in copy_schemas(waiting.pop()):
            pointer = part.get("$ref")
            if isinstance(pointer, str) and pointer not in named:
                meant = named[pointer] = resolve_pointer(whole, pointer)
                waiting += [meant] if isinstance(meant, dict) else []
    if not named:
        return schema
    definitions = {(split_pointer(key) or "#")[-1]: each for key, each in named.items()}
    return {"allOf": [schema, *named.values()], "$defs": definitions}


def _find_misspelt(
    sent: Mapping[str, Any], declared: Collection[str], secret: Collection[str]
) -> Iterator[str]:
    """Yield undeclared keys of `sent` whose nearest declared key is secret."""
    for number, name in enumerate(name for name in sent if name not in declared):
        # Comparing very many takes long; the rest is hidden unseen.
        if number >= _MOST or find_nearest(name, declared) in secret:
            yield name


def _misspelt_inside(value: Any, schema: Any, secret: Collection[str]) -> Iterator[str]:
    """Yield the misspelt keys of all objects inside `value`."""
    waiting = list(_walk_parts(_keep_parts(value), _list_forms(schema, schema)))
    while waiting:
        part, below = waiting.pop()
        if not isinstance(part, Mapping | list | tuple) or not isinstance(below, dict):
            continue
        forms = _list_forms(below, schema)
        if isinstance(part, Mapping):
            declared = {name for form in forms for name in form.get("properties", ())}
            if not declared.isdisjoint(secret):
                yield from _find_misspelt(part, declared, secret)
        waiting.extend(_walk_parts(_keep_parts(part), forms))


def _keep_parts(value: Any) -> Any:
    """Return a mapping or list without the texts and numbers in it."""
    if isinstance(value, Mapping):
        return {key: each for key, each in value.items() if each.__class__ not in SCALARS}
    return [each for each in value if each.__class__ not in SCALARS]


def _list_forms(schema: Any, whole: Any) -> list[dict[str, Any]]:
    """Return a schema and its subschemas for the same value; references lead into `whole`."""
    found: list[dict[str, Any]] = []
    waiting, known = [schema], set[int]()
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict) and id(each) not in known:
            known.add(id(each))
            found.append(each)
            waiting.append(resolve_pointer(whole, each.get("$ref")))
            for key in ("allOf", "anyOf", "oneOf"):
                waiting.extend(each.get(key, ()))
            waiting += [each.get("then"), each.get("else")]
            waiting.extend(each.get("dependentSchemas", {}).values())
    return found


def _walk_parts(value: Any, forms: Iterable[dict[str, Any]]) -> Iterator[tuple[Any, Any]]:
    """Yield the parts of a value, each with every schema that may apply."""
    for form in forms:
        if isinstance(value, Mapping):
            declared = form.get("properties", {})
            others = [form[key] for key in _OTHER_KEYS if key in form]
            others += form.get("patternProperties", {}).values()
            for key, part in value.items():
                for below in [declared[key]] if key in declared else others:
                    yield part, below
        elif isinstance(value, list | tuple):
            others = [form[key] for key in _ITEMS if key in form]
            others += form.get("prefixItems", ())
            for item in value:
                for below in others:
                    yield item, below
