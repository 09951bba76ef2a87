"""Is it told when a group speaks of tools that are not there?"""

from __future__ import annotations

from tool_engine.catalog.group_links import group_warnings, link_faults
from tool_engine.catalog.index import ToolIndex
from tool_engine.catalog.loader import ToolConfigLoader
from tool_engine.model.group import ToolGroup
from tool_engine.model.tool import Tool


def tool(name: str, **keys: object) -> Tool:
    return ToolConfigLoader().from_mapping({"name": name, "description": "d", **keys})


INDEX = ToolIndex([tool("read_file", tags=["files"]), tool("echo")])


def told(**keys: object) -> list[tuple[object, ...]]:
    group = ToolGroup(name="g", **keys)  # type: ignore[arg-type]
    return [(fault.path, fault.sentence) for fault in link_faults(group, INDEX)]


def test_names_that_no_tool_has() -> None:
    """S10: a name in tools, off and rules; a near one is offered, and each is told once."""
    assert told(tools=["echo", "raed_file"], disabled_tools=["raed_file"]) == [
        (("tools", 1), "there is no tool 'raed_file'; did you mean 'read_file'?")
    ]
    assert told(tags=["files"], disabled_tools=["zzz"]) == [
        (("off", 0), "there is no tool 'zzz'; add a definition of it, or remove the name")
    ]
    assert len(told(tools=["ech"], rules="{{if ech}} x")) == 1
    assert len(told(tags=["files"], rules="{{if echo}}{{if two}} x")) == 1
    rules = "{{if ech}} x\n {{if echo}} y\n{{if ech}} z\nnot {{if there}}"
    assert told(tags=["files"], rules=rules) == [
        (("rules",), "there is no tool 'ech'; did you mean 'echo'?")
    ]


def test_a_tool_that_is_off_and_not_of_the_group() -> None:
    """S21: turning off what is not selected does nothing, which nobody can have meant."""
    assert told(tags=["files"], disabled_tools=["echo"]) == [
        (
            ("off", 0),
            "the tool 'echo' is off and does not belong to the group; select it, or remove it here",
        )
    ]
    assert told(tags=["files"], disabled_tools=["read_file"]) == []


def test_all_that_is_told_of_a_snapshot() -> None:
    """The file and the key stand before each warning; a group of code has its name there."""
    bad = ToolGroup(name="bad", tools=("zzz",), source="bad.yaml", findings=("bad.yaml:1:1: odd",))
    index = INDEX.with_groups({"bad": bad, "code": ToolGroup(name="code", tools=("yyy",))})
    cure = "add a definition of it, or remove the name"
    assert group_warnings(index) == [
        "bad.yaml:1:1: odd",
        f"bad.yaml: tools[0]: there is no tool 'zzz'; {cure}",
        f"group 'code': tools[0]: there is no tool 'yyy'; {cure}",
    ]
