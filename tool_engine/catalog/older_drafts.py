"""How is a JSON Schema of an older draft, or of OpenAPI, written in the words of today?"""

from __future__ import annotations

from typing import Any

from tool_engine.model.json.references import Steps, copy_schemas, split_pointer, write_pointer

_Moves = dict[tuple[str, ...], tuple[str, ...]]
"""Where schemas stood -> where they stand."""


def write_today(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a copy in the words of draft 2020-12; what it does not say in others stays."""
    nodes = copy_schemas(schema)
    moves: _Moves = {}
    for steps, node in nodes:
        _write_types(node)
        _write_bounds(node)
        _move_schemas(node, steps, moves)
    if not moves:
        return nodes[0][1]
    nodes = copy_schemas(nodes[0][1])
    for _, node in nodes:
        _follow_moves(node, moves)
    # Inside of what was moved nothing has been looked at yet.
    return write_today(nodes[0][1])


def _write_types(node: dict[str, Any]) -> None:
    kinds = node.get("type")
    if isinstance(kinds, str) and kinds.isupper():
        node["type"] = kinds.lower()
    if node.pop("nullable", None) is True and isinstance(node.get("type"), str):
        node["type"] = [node["type"], "null"]
        if isinstance(node.get("enum"), list) and None not in node["enum"]:
            node["enum"] = [*node["enum"], None]


def _write_bounds(node: dict[str, Any]) -> None:
    for bound in ("minimum", "maximum"):
        exclusive = f"exclusive{bound.capitalize()}"
        is_exclusive = node.get(exclusive)
        if isinstance(is_exclusive, bool):
            del node[exclusive]
            if is_exclusive and bound in node:
                node[exclusive] = node.pop(bound)


def _move_schemas(node: dict[str, Any], steps: Steps, moves: _Moves) -> None:
    """Give the schemas of tuples and of dependencies the keywords that they have today."""
    place = tuple(map(str, steps))

    def move(old: str, new: str) -> None:
        node[new] = node.pop(old)
        moves[(*place, old)] = (*place, new)

    if isinstance(node.get("items"), list):
        move("items", "prefixItems")
        if "additionalItems" in node:
            move("additionalItems", "items")
    needed = node.get("dependencies")
    if isinstance(needed, dict) and not {"dependentRequired", "dependentSchemas"} & node.keys():
        names = {key: each for key, each in needed.items() if isinstance(each, list)}
        node["dependencies"] = {key: each for key, each in needed.items() if key not in names}
        if names:
            node["dependentRequired"] = names
        if node["dependencies"]:
            move("dependencies", "dependentSchemas")
        else:
            del node["dependencies"]


def _follow_moves(node: dict[str, Any], moves: _Moves) -> None:
    pointer = node.get("$ref")
    if not isinstance(pointer, str) or not pointer.startswith("#"):
        return
    steps = tuple(split_pointer(pointer))
    for length in range(len(steps), 0, -1):
        moved = moves.get(steps[:length])
        if moved is not None:
            node["$ref"] = write_pointer((*moved, *steps[length:]))
            return
