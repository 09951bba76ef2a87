"""R9: all that is wrong with a Python handler's entry is said at once; nothing is run for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from tool_engine.errors import DefinitionError
from tool_engine.executors.python.python_entry import (
    PythonEntry,
    check_entry,
    compile_entry,
    is_place,
)
from tool_engine.model.tool import Tool

Make = Callable[..., Tool]
Write = Callable[[str], str]

SHORTEN = "def shorten(text, length=5): return text[:length]"


def tool_of(make: Make, module: str, name: str = "shorten", **config: Any) -> Tool:
    entry: dict[str, Any] = {"type": "custom", "handler": f"{module}:{name}"}
    return make({**entry, "config": config} if config else entry, "text")


def test_a_place(make: Make, write: Write) -> None:
    """R9: `package.module:function` is all that a definition needs."""
    module = write(SHORTEN)
    entry = compile_entry(tool_of(make, module))
    assert entry == PythonEntry(module, "shorten")
    assert entry.place == f"{module}:shorten"
    assert is_place(entry.place)
    assert not is_place("calculator")


def test_limits(make: Make, write: Write) -> None:
    """R9: the limits of worker processes are read, sizes with their unit."""
    tool = tool_of(make, write(SHORTEN), isolation="process", memory="256 MiB", cpu=2, workers=3)
    entry = compile_entry(tool)
    assert entry.is_isolated
    assert (entry.memory, entry.cpu, entry.workers) == (256 * 2**20, 2.0, 3)
    whole = tool_of(make, write(SHORTEN), isolation="process", memory=2**28)
    assert compile_entry(whole).memory == 2**28
    plain = compile_entry(tool_of(make, write(SHORTEN), isolation="none"))
    assert not plain.is_isolated


@pytest.mark.parametrize(
    ("config", "path", "message"),
    [
        ({"isolation": "thread"}, "entry.config.isolation", "one of none, process, ray"),
        ({"isolation": ["process"]}, "entry.config.isolation", "one of none, process, ray"),
        ({"memory": "1GiB"}, "entry.config.memory", "add isolation: process"),
        ({"isolation": "none", "cpu": 1}, "entry.config.cpu", "add isolation: process"),
        ({"isolation": "process", "memory": "12"}, "entry.config.memory", "such as 256MiB"),
        (
            {"isolation": "process", "memory": "12 parsecs"},
            "entry.config.memory",
            "the text '12 pars",
        ),
        ({"isolation": "process", "memory": "1MiB"}, "entry.config.memory", "from 64MiB"),
        ({"isolation": "process", "memory": True}, "entry.config.memory", "got true"),
        ({"isolation": "process", "memory": "9" * 12 + "GiB"}, "entry.config.memory", "to 1024GiB"),
        ({"isolation": "process", "cpu": 0}, "entry.config.cpu", "above 0"),
        ({"isolation": "process", "cpu": True}, "entry.config.cpu", "got true"),
        ({"isolation": "process", "cpu": float("nan")}, "entry.config.cpu", "got the number nan"),
        ({"isolation": "process", "workers": 0}, "entry.config.workers", "from 1 to 256"),
        ({"isolation": "process", "workers": "2"}, "entry.config.workers", "got the text '2'"),
        ({"isolation": "ray", "memory": "1GiB"}, "entry.config.memory", "; write resources.memory"),
        ({"isolation": "ray", "workers": 2}, "entry.config.workers", "; write max_workers"),
        ({"isolation": "ray", "cpu": 2}, "entry.config.cpu", "has isolation: ray; remove it"),
        ({"isolation": "process", "max_workers": 2}, "entry.config.max_workers", "; write workers"),
        ({"isolation": "process", "batch": {}}, "entry.config.batch", "process; remove it"),
        ({"isolation": "process", "worker": 2}, "entry.config.worker", "did you mean 'workers'"),
    ],
)
def test_wrong_settings(
    config: dict[str, Any], path: str, message: str, make: Make, write: Write
) -> None:
    """R9: each mistake names its place and its cure."""
    problems = check_entry(tool_of(make, write(SHORTEN), **config))
    assert [problem.path for problem in problems] == [path]
    assert message in problems[0].message


def test_a_batch_that_waits_too_long(make: Make, write: Write) -> None:
    """R9: calls whose time is up before they are sent are a mistake of the definition."""

    def paths_of(timeout: float | None, wait: float) -> list[str]:
        config: dict[str, Any] = {"isolation": "ray", "batch": {"max_wait": wait}}
        tool = replace(tool_of(make, write(SHORTEN), **config), timeout=timeout)
        return [f"{each.path}: {each.message}" for each in check_entry(tool)]

    (found,) = paths_of(15, 20)
    assert found == (
        "entry.config.batch.max_wait: is 20 s, and the tool's timeout 15 s: no call could begin; "
        "write less, or raise the timeout"
    )
    assert len(paths_of(20, 20)) == 1
    assert paths_of(20.5, 20) == paths_of(None, 20) == []


@pytest.mark.parametrize(
    "handler",
    ["pkg:", ":f", "pkg.mod:", "a/b.py:f", "pkg.:f", "1a:f", "a:b:c", "a:f()", "class:f", "a b:f"],
)
def test_what_names_no_function(handler: str, make: Make) -> None:
    """R9: a handler with a colon that is no place is refused, with the right form."""
    (problem,) = check_entry(make({"handler": handler}))
    assert problem.path == "entry.handler"
    assert "write package.module:function" in problem.message


def test_all_at_once(make: Make, write: Write) -> None:
    """R5: a definition with several mistakes shows them all."""
    tool = make(
        {"handler": f"{write(SHORTEN)}:x", "argv": ["ls"], "config": {"isolation": "no"}}, "text"
    )
    with pytest.raises(DefinitionError) as caught:
        compile_entry(tool)
    paths = [problem.path for problem in caught.value.problems]
    assert paths == ["entry.argv", "entry.config.isolation"]
    (problem,) = check_entry(make({"handler": f"{write(SHORTEN)}:x"}, "text"))
    assert (problem.path, "has no function 'x'" in problem.message) == ("entry.handler", True)
