"""Is each definition of a group loaded whole, or refused with what is wrong and where?"""

from __future__ import annotations

from pathlib import Path

import pytest

from tool_engine.catalog.group_links import link_faults
from tool_engine.catalog.index import ToolIndex
from tool_engine.catalog.loader import ToolConfigLoader
from tool_engine.errors import DefinitionError
from tool_engine.model.group import Skill, ToolGroup
from tool_engine.model.permission import ExecutionPolicy
from tool_engine.model.tool import Tool

WHOLE = """\
kind: group
name: files
version: "2.0.0"
description: Files.
enabled: true
tools: [read_file, write_file]
tags: [disk]
categories: [file]
off: [write_file, any]
rules: |
  Use {{tools}}, and look at $VAR_REF{{other}}.
    {{if write_file}} Ask first.
skills:
  - name: tidy
    desc: How to tidy.
    prompt: Move what is old.
    when: There is a mess.
  - {name: loud, desc: d, prompt: p, alwaysLoad: true}
permission: ask-always
"""
HEAD = "kind: group\nname: g\n"


def load(text: str) -> ToolGroup:
    (group,) = ToolConfigLoader().load_definitions(text, "g.yaml")
    assert isinstance(group, ToolGroup)
    return group


def test_every_key() -> None:
    """S10, S11, S12, S21: each key of a file is a field of its group."""
    group = load(WHOLE)
    assert (group.name, group.version, group.description) == ("files", "2.0.0", "Files.")
    assert (group.is_enabled, group.disabled_tools) == (True, ("write_file", "any"))
    assert (group.tools, group.tags) == (("read_file", "write_file"), ("disk",))
    assert group.categories == ("file",)
    assert group.rules.startswith("Use {{tools}},")
    assert group.skills == (
        Skill(
            name="tidy", desc="How to tidy.", prompt="Move what is old.", when="There is a mess."
        ),
        Skill(name="loud", desc="d", prompt="p", always_load=True),
    )
    assert group.permission is not None
    assert group.permission.execution is ExecutionPolicy.ASK_ALWAYS
    assert (group.source, group.findings, len(group.definition_hash)) == ("g.yaml", (), 64)


def test_defaults() -> None:
    """S21: a group says little and is off."""
    group = load(HEAD + "tags: [a]\n")
    assert (group.is_enabled, group.version, group.description) == (False, "1.0.0", "")
    assert (group.tools, group.skills, group.permission) == ((), (), None)


def test_skills_by_name() -> None:
    """S12: skills may be a mapping, as in the founding document; both forms are one group."""
    listed = load(HEAD + "skills: [{name: a, desc: d, prompt: p, always_load: true}]\n")
    named = load(HEAD + "skills: {a: {desc: d, prompt: p, alwaysLoad: true}}\n")
    assert listed == named


def test_beside_tools() -> None:
    """Groups and tools stand in one file; a group and a tool may share a name."""
    text = f"{HEAD}tools: [g]\n---\nkind: tool\nname: g\ndescription: d\n---\n{WHOLE}"
    found = ToolConfigLoader().load_definitions(text)
    assert [(type(each), each.name) for each in found] == [
        (ToolGroup, "g"),
        (Tool, "g"),
        (ToolGroup, "files"),
    ]
    assert [each.name for each in ToolConfigLoader().load_tools(text)] == ["g"]


REFUSED = [
    ("kind: grup\nname: g\ntags: [a]\n", "1:7: kind:", "did you mean 'group'?"),
    (HEAD, "1:1:", "the group holds nothing; add tools, tags, categories, rules or skills"),
    (f"{HEAD}off: [a]\n", "3:7: off[0]:", "off and does not belong to the group"),
    ("kind: group\ntags: [a]\n", "1:1:", "the key 'name' is missing"),
    ("kind: group\nname: a b\ntags: [a]\n", "2:7: name:", "a letter or _ first"),
    (f"{HEAD}tools: a\n", "3:8: tools:", "write it as a list: [a]"),
    (f"{HEAD}tools: []\n", "3:8: tools:", "must not be empty"),
    (f"{HEAD}tools: [a, b, a]\n", "3:15: tools[2]:", "'a' is listed twice; remove one"),
    (f"{HEAD}tools: [a, raed]\noff: [a, read]\n", "4:10: off[1]:", "did you mean 'raed'?"),
    (f"{HEAD}tools: [1]\n", "3:9: tools[0]:", "expected text, got the number 1; quote it"),
    (f"{HEAD}tol: [a]\n", "3:1: tol:", "did you mean 'tools'?"),
    (f"{HEAD}categories: [htp]\n", "3:14: categories[0]:", "did you mean 'http'?"),
    (f"{HEAD}tags: [a]\nversion: 1.10\n", "4:10: version:", "got the number 1.10; quote it"),
    (f"{HEAD}tags: [a]\nenabled: yes\n", "4:10: enabled:", "write true"),
    (f"{HEAD}rules: ''\n", "3:8: rules:", "must not be empty"),
    (f"{HEAD}tags: [a]\npermission: alwys\n", "4:13: permission:", "expected one of auto"),
    (f"{HEAD}skills: [{{name: a, desc: d}}]\n", "3:10: skills[0]:", "the key 'prompt' is missing"),
    (f"{HEAD}skills: {{a/b: {{desc: d, prompt: p}}}}\n", "3:10:", "a letter, a digit or _ first"),
    (f"{HEAD}skills: {{a: 3}}\n", "3:13: skills.a:", "expected a mapping"),
    (f"{HEAD}skills: [3]\n", "3:10: skills[0]:", "expected a mapping"),
    (
        f"{HEAD}skills: [{{name: a, desc: d, prompt: p}}, {{name: a, desc: d, prompt: p}}]\n",
        "3:48: skills[1].name:",
        "the skill 'a' is already skills[0]; rename or remove one",
    ),
    (
        f"{HEAD}skills: [{{name: a, desc: d, prompt: p, always_load: true, alwaysLoad: true}}]\n",
        "3:59: skills[0].alwaysLoad:",
        "always_load and alwaysLoad say the same; give one",
    ),
    (
        f"{HEAD}tags: [a]\n---\n{HEAD}tags: [b]\n",
        "6:7: name:",
        "the group 'g' is already defined on line 2",
    ),
    ("name: t\ndescription: d\nskills: {}\n", "3:1: skills:", "add kind: group"),
]


@pytest.mark.parametrize(("text", "place", "words"), REFUSED)
def test_refused(text: str, place: str, words: str) -> None:
    """S10: what is wrong is told with file, line, column, key and cure, as for tools."""
    with pytest.raises(DefinitionError) as caught:
        ToolConfigLoader().load_definitions(text, "g.yaml")
    (problem,) = [str(each) for each in caught.value.problems]
    assert problem.startswith(f"g.yaml:{place}")
    assert words in problem


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ("Use {{tool}}.", "{{tool}} stands for nothing and reaches the model as it is"),
        ("Use {{ tools }}.", "{{ tools }} stands for nothing"),
        ("{{if}} x", "{{if}} stands for nothing"),
        ("Ask {{if a}} first.", "{{if a}} does not stand where its line begins"),
    ],
)
def test_marks_that_do_nothing_are_told(rules: str, words: str) -> None:
    """S11: a mark that is no mark is a warning: a text may well be about braces."""
    (finding,) = load(f"{HEAD}rules: '{rules}'\n").findings
    assert finding.startswith("g.yaml:3:8: rules:")
    assert words in finding


def test_right_marks_are_no_findings() -> None:
    """S11: several conditions may begin a line, indented or not; a reference is no mark."""
    rules = "{{tools}}\n  {{if a}} {{if b }}x {{tools}}\n$VAR_REF{{x}} and {single}\n{{if a}}"
    assert ToolConfigLoader().group_from_mapping({"name": "g", "rules": rules}).findings == ()


def test_a_file_that_was_cut_is_told() -> None:
    """K3: a file whose last line does not end may have been cut short."""
    (group,) = ToolConfigLoader().load_definitions(f"{HEAD}tags: [a]".encode(), "g.yaml")
    assert "may have been cut short" in group.findings[0]


def test_a_group_is_no_tool() -> None:
    """Who asks for one tool is told how to read a group."""
    with pytest.raises(DefinitionError, match="load_definitions") as caught:
        ToolConfigLoader().load_text(WHOLE, "g.yaml")
    assert str(caught.value).startswith("g.yaml:1:7: kind:")
    with pytest.raises(DefinitionError, match="register it as a group"):
        ToolConfigLoader().from_mapping({"kind": "group", "name": "g", "tags": ["a"]})


def test_from_a_mapping() -> None:
    """S10: code may leave the kind out, and tuples are lists; what is wrong is refused."""
    loader = ToolConfigLoader()
    group = loader.group_from_mapping({"name": "g", "tools": ("a", "b")})
    assert (group.tools, group.source) == (("a", "b"), None)
    assert group == loader.group_from_mapping({"kind": "group", "name": "g", "tools": ["a", "b"]})
    for wrong, words in (
        ({"kind": "tool", "name": "g", "tags": ["a"]}, "expected group, got the text 'tool'"),
        ({"name": "g"}, "the group holds nothing"),
        ({"name": "g", "tools": [object()]}, "cannot be part of a definition"),
    ):
        with pytest.raises(DefinitionError, match=words):
            loader.group_from_mapping(wrong)


def test_the_hash_is_that_of_the_content() -> None:
    """The layout and the place of a text are not the group; each key is."""
    group = load(WHOLE)
    other = load("# another\n" + WHOLE.replace("tags: [disk]", "tags:\n  - disk"))
    assert other.definition_hash == group.definition_hash
    for key in ("enabled: true\n", "tags: [disk]\n", "permission: ask-always\n"):
        assert load(WHOLE.replace(key, "")).definition_hash != group.definition_hash


@pytest.mark.parametrize("text", [WHOLE, HEAD + "tags: ['1', 'off', 'a: b']\n"])
def test_export_loads_as_the_same_group(text: str) -> None:
    """S10: a group that is written again is the same."""
    loader, group = ToolConfigLoader(), load(text)
    assert load(loader.export_to_yaml(group)) == group


def test_a_folder(tmp_path: Path) -> None:
    """S10: the loader lists the groups of a folder; a name that two files have is refused."""
    (tmp_path / "a.yaml").write_text(f"name: a\ndescription: d\n---\n{WHOLE}", encoding="utf-8")
    (tmp_path / "b.yaml").write_text(f"{HEAD}tools: [a]\n", encoding="utf-8")
    loader = ToolConfigLoader()
    assert [tool.name for tool in loader.load_directory(tmp_path)] == ["a"]
    assert [group.name for group in loader.groups] == ["files", "g"]
    assert loader.load_errors == []
    (tmp_path / "c.yaml").write_text(f"{HEAD}tags: [a]\n", encoding="utf-8")
    loader.load_directory(tmp_path)
    assert [group.name for group in loader.groups] == ["files"]
    (first, message), (second, _) = loader.load_errors
    assert (first, second) == (str(tmp_path / "b.yaml"), str(tmp_path / "c.yaml"))
    assert f"the group 'g' is also defined in {tmp_path / 'c.yaml'}" in message


def test_much_that_is_wrong_is_told_in_time() -> None:
    """A hostile file of ten thousand slips is refused with the first hundred, and at once."""
    names = [f"name_{number}" for number in range(9_000)]
    group = {"name": "g", "tools": names[:4_500], "off": names[4_500:]}
    with pytest.raises(DefinitionError) as caught:
        ToolConfigLoader().group_from_mapping(group)
    assert len(caught.value.problems) == 100
    rules = "".join(f"{{{{{number}}}}}\n" for number in range(9_000)) + "\n" * 100_000
    made = ToolConfigLoader().group_from_mapping({"name": "g", "rules": rules})
    assert len(made.findings) == 100
    assert link_faults(made, ToolIndex()) == []
    unknown = ToolConfigLoader().group_from_mapping({"name": "g", "tools": names})
    assert len(link_faults(unknown, ToolIndex())) == 100
