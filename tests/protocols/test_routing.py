"""Which tool a call means, and what happens where it could mean two. A30-A35, X2."""

from __future__ import annotations

from typing import Any

import pytest

from tool_engine.model.call import ToolCall
from tool_engine.model.outcome import ErrorType
from tool_engine.model.parameter import ToolParameter
from tool_engine.model.tool import Tool, ToolCategory
from tool_engine.protocols.routing import Route, Router
from tool_engine.sources.foreign import as_source

COMMAND = ToolParameter("command", "string", description="What to do")
LISTED = ToolParameter("command", "string", validation={"enum": ["list", "read"]})
ONLY = ToolParameter("command", "string", schema={"const": "go"})
ANY = ToolParameter("command", "any", schema={"anyOf": [{}]})


def tools(*declared: tuple[str, ToolParameter | None], **statuses: str) -> dict[str, Tool]:
    return {
        name: Tool(
            name, name, "1.0.0", "A sample", ToolCategory.CUSTOM, [],
            [] if parameter is None else [parameter], {}, statuses.get(name, "published"),
        )
        for name, parameter in declared
    }  # fmt: skip


def routed(catalog: dict[str, Tool], name: str, *, text: bool = True, **arguments: Any) -> Route:
    router = Router(as_source(catalog), has_commands=text)
    return router.route(ToolCall(call_id="1", tool_name=name, arguments=arguments))


@pytest.mark.parametrize("text", [True, False])
def test_the_name_itself(text: bool) -> None:
    """A tool that has the name is the one, whatever else its name could be taken for."""
    catalog = tools(("a_b", None), ("a", LISTED), ("a.b", None))
    route = routed(catalog, "a_b", text=text, x=1)
    assert (route.name, route.arguments, route.repairs, route.error) == ("a_b", {"x": 1}, (), None)


@pytest.mark.parametrize("joined", ["a_b", "a.b", "a-b", "dir-tree_list"])
def test_a_tool_and_a_command_name_a_tool(joined: str) -> None:
    """X2: `tool_name` `a` with `command` `b` is the tool that both name together."""
    owner, command = (
        joined[: -2 if len(joined) == 3 else -5],
        joined.replace("-", "_").split("_")[-1],
    )
    command = "b" if len(joined) == 3 else command
    for text in (True, False):
        route = routed(tools((joined, None)), owner, text=text, command=command, x=1)
        assert (route.name, route.arguments, route.error) == (joined, {"x": 1}, None)
        assert joined in route.repairs[0]


def test_a_command_that_the_tool_declares() -> None:
    """A tool that takes `command` gets it, where no other tool could be meant."""
    route = routed(tools(("a", COMMAND)), "a", command="b")
    assert (route.name, route.arguments, route.repairs) == ("a", {"command": "b"}, ())


def test_two_readings_are_refused() -> None:
    """Where the command may be an argument or a part of a name, both are named, none is run."""
    route = routed(tools(("a", COMMAND), ("a_b", None)), "a", command="b")
    assert route.error is not None
    assert "'a' with command='b' or 'a_b'" in route.error
    route = routed(tools(("a_b", None), ("a.b", None)), "a", command="b")
    assert route.error is not None
    assert "'a_b' or 'a.b'" in route.error
    # In a native call the name is what the model chose, and `command` an argument like others.
    native = routed(tools(("a", COMMAND), ("a_b", None)), "a", text=False, command="b")
    assert (native.name, native.error) == ("a", None)


def test_a_command_of_a_tool_that_takes_none() -> None:
    """It is not dropped and then run without."""
    route = routed(tools(("a", None)), "a", command="delete")
    assert route.error is not None
    assert "takes no parameter 'command'" in route.error
    assert routed(tools(("a", None)), "a", text=False, command="delete").error is None


@pytest.mark.parametrize(("name", "command"), [("a_b", "b"), ("a-b", "b"), ("b", "b")])
def test_a_command_that_is_in_the_name_already(name: str, command: str) -> None:
    """The whole name and the command once more: the command says nothing new."""
    route = routed(tools((name, None)), name, command=command, x=1)
    assert (route.name, route.arguments, route.error) == (name, {"x": 1}, None)
    assert route.repairs


@pytest.mark.parametrize(
    ("parameter", "name", "is_found"),
    [
        (LISTED, "dir_tree_list", True),
        (LISTED, "dir_tree_write", False),
        (ONLY, "dir_tree_go", True),
        # A tool that takes any command, a shell, say, is not run for a name that nobody has.
        (COMMAND, "dir_tree_rm", False),
        (ANY, "dir_tree_rm", False),
        (None, "dir_tree_list", False),
    ],
)
def test_a_tool_and_a_method_in_one_name(
    parameter: ToolParameter | None, name: str, is_found: bool
) -> None:
    """A35: split at the last `_`, the rest is a command that the tool lists."""
    route = routed(tools(("dir_tree", parameter)), name, path="x")
    assert (route.name == "dir_tree") is is_found
    if is_found:
        assert route.arguments == {"command": name.rpartition("_")[2], "path": "x"}
        assert name in route.repairs[0]
    else:
        # The engine says that there is no such tool.
        assert (route.name, route.tool, route.error) == (name, None, None)


def test_other_joints() -> None:
    """`a_b` is `a.b` if that is the only one; with both `a.b` and `a-b`, both are named."""
    assert routed(tools(("a.b", None)), "a_b").name == "a.b"
    route = routed(tools(("a.b", None), ("a-b", None)), "a_b")
    assert route.error is not None
    assert "'a.b' or 'a-b'" in route.error
    route = routed(tools(("a.b", None), ("a", LISTED)), "a_list", command="read")
    assert (route.name, route.error) == ("a_list", None)


@pytest.mark.parametrize("name", ["", "_", "_a", "a_", "nothing"])
def test_names_of_nothing(name: str) -> None:
    """A30: what is no name of a tool in any form is left as it is, for the engine to refuse."""
    route = routed(tools(("a", LISTED)), name)
    assert (route.name, route.tool, route.error) == (name, None, None)


def test_aliases() -> None:
    """X2: the command of another program is the tool that the alias names."""
    catalog = tools(("directory-tree_listFiles", None), ("shell", COMMAND))
    router = Router(
        as_source(catalog),
        aliases={"ListFiles": "directory-tree_listFiles", "gone": "nowhere"},
        has_commands=True,
    )

    def route(name: str, **arguments: Any) -> Route:
        return router.route(ToolCall(call_id="1", tool_name=name, arguments=arguments))

    assert route("ListFiles", path="x").name == "directory-tree_listFiles"
    found = route("Directory Tree", command="ListFiles", path="x")
    assert (found.name, found.arguments) == ("directory-tree_listFiles", {"path": "x"})
    assert route("gone").tool is None
    assert route("shell", command="ListFiles").error is not None


def test_only_what_the_model_may_call() -> None:
    """A33: a tool that is there but not among the callable ones is refused, and that is said."""
    catalog = tools(("read", None), ("erase", None), ("draft", None), draft="draft")
    router = Router(as_source(catalog), tools=["read", "draft"])

    def route(name: str) -> Route:
        return router.route(ToolCall(call_id="1", tool_name=name, arguments={}))

    assert route("read").error is None
    assert route("draft").error is None
    refused = route("erase")
    assert refused.error == (
        "the tool 'erase' is there, but may not be called here; call one that you were told of"
    )
    assert refused.error_type == ErrorType.REJECTED.value
    missing = route("reed")
    assert missing.error == "there is no tool 'reed'; did you mean 'read'?"
    assert missing.error_type == ErrorType.TOOL_NOT_FOUND.value


@pytest.mark.parametrize("status", ["draft", "deprecated"])
def test_a_tool_that_no_model_is_told_of(status: str) -> None:
    """A33: without a list of names, every enabled tool may be called, and no other."""
    catalog = tools(("old", None), old=status)
    route = routed(catalog, "old")
    assert route.error is not None
    assert "may not be called" in route.error


def test_a_route_that_was_found_is_checked_too() -> None:
    """A name in another form opens no way around the list."""
    catalog = tools(("a_b", None), ("c", None))
    router = Router(as_source(catalog), tools=["c"], has_commands=True)
    call = ToolCall(call_id="1", tool_name="a", arguments={"command": "b"})
    assert router.route(call).error_type == ErrorType.REJECTED.value
