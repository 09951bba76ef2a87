"""When does a new task have to wait for others that nobody has taken?"""

from __future__ import annotations

from tool_engine.background.backlog import Backlog


def test_a_look_alone_holds_up_none() -> None:
    backlog = Backlog()
    backlog.is_due = True
    assert not backlog.may_hold("work")
    assert not backlog.has_any


def test_before_the_first_look_any_may_wait() -> None:
    backlog = Backlog()
    backlog.expect_any()
    assert backlog.may_hold("work")
    assert backlog.is_due
    backlog.begin_look()
    backlog.end_look(set(), is_whole=False)
    assert backlog.may_hold("work")
    assert backlog.is_due
    backlog.begin_look()
    backlog.end_look(set(), is_whole=True)
    assert not backlog.has_any
    assert not backlog.is_due


def test_a_new_task_comes_after_those_of_its_tool() -> None:
    backlog = Backlog()
    backlog.note_waiting("work")
    assert backlog.may_hold("work")
    assert not backlog.may_hold("other")
    backlog.begin_look()
    backlog.end_look({"work"}, is_whole=True)
    assert backlog.may_hold("work")
    assert not backlog.is_due


def test_what_comes_during_a_look_is_looked_for_again() -> None:
    backlog = Backlog()
    backlog.note_waiting("early")
    backlog.begin_look()
    backlog.note_waiting("late")
    backlog.end_look(set(), is_whole=True)
    assert not backlog.may_hold("early")
    assert backlog.may_hold("late")
    assert backlog.is_due
    assert repr(backlog) == "<Backlog of late, to be looked at>"


def test_what_waits_for_places_alone_is_not_looked_for() -> None:
    """A look that finds nothing goes through all that wait: it is made where others may be."""
    backlog = Backlog()
    backlog.note_waiting("work")
    for full in ({"work"}, {"work", "other"}):
        backlog.is_due = True  # a place has come free
        backlog.begin_look()
        backlog.end_look(set(), is_whole=False)
        backlog.rest_while_full(full)
        assert not backlog.is_due
        assert backlog.may_hold("work")
        assert not backlog.may_hold("other")
    backlog.note_waiting("other")
    backlog.rest_while_full({"work"})
    assert backlog.is_due
    backlog.begin_look()
    backlog.end_look({"work"}, is_whole=True)
    backlog.look_for_others()
    backlog.begin_look()
    backlog.end_look(set(), is_whole=False)
    backlog.rest_while_full({"work"})
    assert backlog.is_due
    assert backlog.may_hold("third")
    backlog.begin_look()
    backlog.end_look(set(), is_whole=True)
    backlog.begin_look()
    backlog.end_look(set(), ["left by others"], is_whole=False)
    assert backlog.may_hold("left by others")
