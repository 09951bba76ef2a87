"""Which rules of a schema can be said in other keywords, where a provider takes no such keyword?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

Node = dict[str, Any]


class _Subset(Protocol):
    @property
    def provider(self) -> str: ...

    def takes(self, keyword: str, *, is_root: bool = False) -> bool: ...

    def takes_enum(self, values: Any) -> bool: ...


class _Place(Protocol):
    @property
    def depth(self) -> int: ...

    def note(self, kind: str, keyword: str, message: str) -> None: ...


def unite_properties(node: Node, subset: _Subset) -> None:
    """Move the parameters of unsupported alternatives into the object itself.

    The rules of the alternatives are put into words later; this at least declares the parameters.
    """
    found = node.get("properties")
    properties = dict(found) if isinstance(found, Mapping) else {}
    for keyword in ("anyOf", "oneOf"):
        if keyword not in node or subset.takes(keyword, is_root=True):
            continue
        for name, part in _list_properties(node[keyword]):
            known = properties.setdefault(name, part)
            if known != part:
                properties[name] = {"anyOf": [known, part]}
    if properties:
        node["properties"] = properties


def _list_properties(alternatives: Any) -> list[tuple[str, Any]]:
    listed = alternatives if isinstance(alternatives, list) else []
    found = (each.get("properties") for each in listed if isinstance(each, Mapping))
    return [pair for each in found if isinstance(each, Mapping) for pair in each.items()]


def _rewrite_const(node: Node, subset: _Subset, place: _Place) -> None:
    if "const" not in node or "enum" in node or not subset.takes_enum([node["const"]]):
        return
    if _takes_other(subset, place, "const", "enum"):
        node["enum"] = [node.pop("const")]
        place.note(
            "rewritten", "const", f"{subset.provider} takes no 'const': it is an enum of one"
        )


def _rewrite_bounds(node: Node, subset: _Subset, place: _Place) -> None:
    for strict, plain, step in (
        ("exclusiveMinimum", "minimum", 1),
        ("exclusiveMaximum", "maximum", -1),
    ):
        value = node.get(strict)
        # Only whole numbers have a next one.
        is_whole = node.get("type") == "integer" and type(value) is int
        if not is_whole or plain in node or not _takes_other(subset, place, strict, plain):
            continue
        node[plain] = node.pop(strict) + step
        place.note("rewritten", strict, f"{subset.provider} takes no {strict!r}: it is a {plain}")


def _rewrite_one_of(node: Node, subset: _Subset, place: _Place) -> None:
    if "oneOf" in node and "anyOf" not in node and _takes_other(subset, place, "oneOf", "anyOf"):
        node["anyOf"] = node.pop("oneOf")
        place.note("rewritten", "oneOf", f"{subset.provider} takes no 'oneOf': it is an anyOf")


def _rewrite_all_of(node: Node, subset: _Subset, place: _Place) -> None:
    branches = node.get("allOf")
    if not isinstance(branches, list) or subset.takes("allOf", is_root=place.depth == 0):
        return
    merged = {key: value for key, value in node.items() if key != "allOf"}
    for branch in branches:
        if not isinstance(branch, Mapping) or not _merge_branch(merged, branch):
            return
    node.clear()
    node.update(merged)
    place.note("rewritten", "allOf", f"{subset.provider} takes no 'allOf': its parts are merged")


def _merge_branch(into: Node, branch: Mapping[str, Any]) -> bool:
    """Merge a branch's rules; return False if the two contradict."""
    for keyword, value in branch.items():
        known = into.get(keyword)
        if keyword not in into or known == value:
            into[keyword] = value
        elif keyword == "properties" and isinstance(known, Mapping) and isinstance(value, Mapping):
            if any(known.get(name, part) != part for name, part in value.items()):
                return False
            into[keyword] = {**known, **value}
        elif keyword == "required" and isinstance(known, list) and isinstance(value, list):
            into[keyword] = [*known, *(name for name in value if name not in known)]
        elif keyword not in ("description", "title"):
            return False
    return True


def _takes_other(subset: _Subset, place: _Place, keyword: str, other: str) -> bool:
    is_root = place.depth == 0
    return not subset.takes(keyword, is_root=is_root) and subset.takes(other, is_root=is_root)


REWRITES: Final[tuple[Callable[[Node, _Subset, _Place], None], ...]] = (
    _rewrite_all_of,
    _rewrite_const,
    _rewrite_bounds,
    _rewrite_one_of,
)
"""Each changes a copy of one schema, and notes its changes."""
