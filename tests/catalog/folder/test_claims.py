"""Is it always known which names one file defines and which ones several do?"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tool_engine.catalog.folder.folder_reading import Claims
from tool_engine.catalog.loader import ToolConfigLoader
from tool_engine.model.tool import Tool

_LOADER = ToolConfigLoader()
TOOLS = {
    (file, name): _LOADER.load_text(f"name: {name}\ndescription: d", f"{file}.yaml")
    for file in "pqr"
    for name in "abc"
}

steps = st.lists(st.tuples(st.sampled_from("pqr"), st.frozensets(st.sampled_from("abc"))))


@given(steps, st.booleans())
def test_each_step_equals_a_new_count(
    changes: list[tuple[str, frozenset[str]]], asks: bool
) -> None:
    """U13: however files change, each name has exactly the tools of the files that define it."""
    claims = Claims()
    held: dict[str, frozenset[str]] = dict.fromkeys("pqr", frozenset())
    for file, names in changes:
        old, held[file] = held[file], names
        claims.replace([TOOLS[file, name] for name in old], [TOOLS[file, name] for name in names])
        if asks:
            claims.index()
    wanted: dict[str, list[Tool]] = {}
    for file in "pqr":
        for name in held[file]:
            wanted.setdefault(name, []).append(TOOLS[file, name])
    assert {tool.name: [tool] for tool in claims.index()} | claims.rivals == wanted
    assert claims.index().list_names() == sorted(set(wanted) - set(claims.rivals))
