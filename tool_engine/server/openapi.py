"""How does the API describe itself, as OpenAPI 3.1?"""

from __future__ import annotations

import re
from collections.abc import Iterable
from http import HTTPStatus
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final
from urllib.parse import quote

import msgspec

from tool_engine.access.problem import ProblemDetails
from tool_engine.server.operation import Operation
from tool_engine.server.problems import list_errors


def _find_version() -> str:
    try:
        return version("tool-engine")
    except PackageNotFoundError:
        return "0"


_VERSION: Final = _find_version()
_TEMPLATE: Final = "#/components/schemas/{name}"
_PART: Final = re.compile(r"\{(\w+)\}")
_ALWAYS: Final = (400, 403, 408, 409, 413, 415, 421, 429, 500, 503)
"""The statuses of problems that any operation has."""
_WITH_RIGHTS: Final = (401,)


def describe_operations(operations: Iterable[Operation]) -> dict[str, Any]:
    """Return the description of the operations as one JSON object, without its servers."""
    known = tuple(operations)
    types: list[Any] = [ProblemDetails]
    for each in known:
        types += [kind for kind in (each.answer, each.body) if kind not in (None, str)]
    schemas, components = msgspec.json.schema_components(types, ref_template=_TEMPLATE)
    by_type = dict(zip(map(repr, types), schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for each in known:
        paths.setdefault(each.path, {})[each.method.lower()] = _describe_operation(each, by_type)
    return {
        "openapi": "3.1.1",
        "info": {
            "title": "tool_engine",
            "version": _VERSION,
            "description": (
                "Tools that are validated, admitted, run under a deadline and recorded. A call "
                "that fails answers 200 with a result that says so; a status of 400 and above is "
                "for requests that cannot be done."
            ),
        },
        "security": [{"token": []}],
        "tags": [{"name": name} for name in sorted({_tag_of(each) for each in known})],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "A token, or a JWT."}
            },
        },
    }


def write_description(described: bytes, root: str) -> bytes:
    """Return a description as JSON, of a server whose paths begin with `root`.

    Args:
        described: What `describe_operations` returns, as JSON.
        root: Where the app is mounted; empty: nowhere.
    """
    servers = msgspec.json.encode([{"url": quote(root) or "/"}])
    return b'%s,"servers":%s}' % (described[:-1], servers)


def _describe_operation(operation: Operation, schemas: dict[str, Any]) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "tags": [_tag_of(operation)],
    }
    if operation.description:
        described["description"] = operation.description
    if operation.scope is None:
        described["security"] = []
    else:
        described["x-scope"] = operation.scope
    if parameters := _describe_parameters(operation):
        described["parameters"] = parameters
    if operation.body is not None:
        described["requestBody"] = {
            "required": operation.is_body_needed,
            "content": {"application/json": {"schema": schemas[repr(operation.body)]}},
        }
    described["responses"] = _describe_answers(operation, schemas)
    return described


def _describe_parameters(operation: Operation) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": {"type": "string", "minLength": 1, "pattern": "^[^/]+$"},
        }
        for name in _PART.findall(operation.path)
    ]
    if operation.query is not None:
        schema = msgspec.json.schema_components([operation.query], ref_template=_TEMPLATE)[1]
        for name, each in schema[operation.query.__name__]["properties"].items():
            shown = {key: value for key, value in each.items() if key not in ("default",)}
            found.append({"name": name, "in": "query", "schema": _without_null(shown)})
    for name, said in operation.headers.items():
        if name != "accept":
            text, bounds = (said, {}) if isinstance(said, str) else said
            schema = {"type": "string", **bounds}
            found.append({"name": name, "in": "header", "description": text, "schema": schema})
    return found


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Return what a parameter is where it is there: null cannot be written in an address."""
    kept = [each for each in schema.get("anyOf", ()) if each != {"type": "null"}]
    if len(kept) == 1:
        return {**{key: value for key, value in schema.items() if key != "anyOf"}, **kept[0]}
    return schema


def _describe_answers(operation: Operation, schemas: dict[str, Any]) -> dict[str, Any]:
    status = str(operation.status)
    content: dict[str, Any] = {}
    if operation.answer is not None and operation.answer is not str:
        content["application/json"] = {"schema": schemas[repr(operation.answer)]}
    answers: dict[str, Any] = {}
    for key, value in operation.also.items():
        if "/" in key:
            content[key] = value
        else:
            answers[key] = value
    done: dict[str, Any] = {"description": HTTPStatus(operation.status).phrase}
    if content:
        done["content"] = content
    statuses = {*operation.errors, *_ALWAYS, *(_WITH_RIGHTS if operation.scope else ())}
    if operation.body is not None:
        statuses |= {422}
    return {status: done, **answers, **list_errors(*sorted(statuses))}


def _tag_of(operation: Operation) -> str:
    parts = operation.path.strip("/").split("/")
    return parts[1] if parts[0] == "v1" else "service"
