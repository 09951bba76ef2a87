"""Fields of settable structs are set like any other, and the collector still sees their cycles."""

import gc
import weakref

import msgspec
import pytest

from tool_engine.admission.slot import ConcurrencySlot
from tool_engine.backends.task import ToolTask
from tool_engine.calls.call import Call
from tool_engine.model.settings.settable import settable


@settable
class Node(msgspec.Struct, eq=False, weakref=True):
    """Made with an object that the collector tracks."""

    owner: object
    other: object = None


class Owner:
    """An object of a Python class."""


def test_a_field_is_set_and_read_back() -> None:
    """What is set is there; what is no field is refused."""
    node = Node(Owner())
    node.other = 3
    assert node.other == 3
    with pytest.raises(AttributeError):
        node.unknown = 1  # type: ignore[attr-defined]


def test_a_cycle_that_is_tied_later_is_freed() -> None:
    """A node that points to itself goes with the next collection."""
    node = Node(Owner())
    node.other = node
    gone = weakref.ref(node)
    del node
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("cls", [ConcurrencySlot, ToolTask, Call])
def test_what_every_call_makes_is_settable(cls: type[msgspec.Struct]) -> None:
    """The structs on the path of every call use the quick way."""
    assert cls.__setattr__ is object.__setattr__
