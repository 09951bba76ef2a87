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
