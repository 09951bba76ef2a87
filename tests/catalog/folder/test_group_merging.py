"""What becomes of the groups when the files of a folder change?"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tool_engine.catalog.folder.merging import group_changes, merged_groups, with_registered
from tool_engine.model.group import ToolGroup


def group(name: str, source: str | None, tag: str = "t") -> ToolGroup:
    return ToolGroup(name=name, tags=[tag], source=source)  # type: ignore[arg-type]


groups = st.builds(
    group,
    st.sampled_from(["a", "b", "c"]),
    st.sampled_from(["1.yaml", "2.yaml", "3.yaml"]),
    st.sampled_from(["t", "u"]),
)
in_code = st.builds(group, st.sampled_from(["a", "b", "d"]), st.none())


@given(st.lists(groups, max_size=4), st.lists(in_code, max_size=2), st.lists(groups, max_size=6))
def test_no_group_is_lost_or_guessed(
    before: list[ToolGroup], registered: list[ToolGroup], files: list[ToolGroup]
) -> None:
    """S10: what is registered stays; one file's group is there; several are errors of each file."""
    previous = {each.name: each for each in (*before, *registered)}
    found = list({(each.name, each.source): each for each in files}.values())
    after, errors = merged_groups(previous, found)
    assert list(after) == sorted(after)
    told = {file for file, _ in errors}
    for name, now in after.items():
        assert now.name == name
        if now.source is None:
            assert now is previous[name]
    for each in previous.values():
        if each.source is None:
            assert after[each.name] is each
        elif each.name not in {new.name for new in found}:
            assert each.name not in after
    for each in found:
        rivals = [new for new in found if new.name == each.name]
        owner = after.get(each.name)
        if len(rivals) == 1 and not (owner is not None and owner.source is None):
            assert owner is each
        else:
            assert each.source in told
            assert owner is None or owner is previous.get(each.name)


def test_a_claimed_name_goes_on_meaning_what_it_meant() -> None:
    """U13: a second file takes nothing away, and both are told, each with the other's name."""
    first, second = group("a", "1.yaml"), group("a", "2.yaml")
    after, errors = merged_groups({"a": first}, [first, second])
    assert after == {"a": first}
    assert [file for file, _ in errors] == ["1.yaml", "2.yaml"]
    assert "the group 'a' is also defined in 2.yaml; rename or remove one" in errors[0][1]
    assert merged_groups({}, [first, second])[0] == {}
    assert merged_groups({"a": group("a", "gone.yaml")}, [first, second])[0] == {}


def test_code_goes_first() -> None:
    """A group of a file whose name is registered in code is an error of the file."""
    mine = group("a", None)
    after, errors = merged_groups({"a": mine}, [group("a", "1.yaml")])
    assert after == {"a": mine}
    assert "also defined in <code>" in errors[0][1]


def test_changes() -> None:
    """The names are told by kind; nothing at all when nothing changed."""
    before = {"a": group("a", "1"), "b": group("b", "1")}
    after = {"b": group("b", "1", "u"), "c": group("c", "1")}
    assert group_changes(before, after) == {
        "groups_added": ["c"],
        "groups_modified": ["b"],
        "groups_removed": ["a"],
    }
    assert group_changes(before, dict(before)) == {}


def test_registered_groups_follow_the_code() -> None:
    """What code registered and took back since the last look is what counts."""
    files = {"a": group("a", "1"), "old": group("old", None)}
    present = {"gone": group("gone", "1"), "new": group("new", None)}
    assert list(with_registered(files, present)) == ["a", "new"]
