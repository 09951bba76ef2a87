"""How a tool finds its executor."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog

from tool_engine.errors import ConfigurationError, ExecutorNotFoundError, MissingExtraError
from tool_engine.executors.calculator import CalculatorExecutor
from tool_engine.executors.commands.command_executor import CommandExecutor
from tool_engine.executors.echo import EchoExecutor
from tool_engine.executors.executor_registry import BUILTIN_EXECUTORS, ExecutorRegistry
from tool_engine.executors.http.http_executor import HTTPExecutor
from tool_engine.executors.tool_search import ToolSearchExecutor
from tool_engine.model.tool import Tool

Make = Callable[..., Tool]


class Own:
    def __init__(
        self, closed: list[str] | None = None, name: str = "", fails: bool = False
    ) -> None:
        self.closed, self.name, self.fails = closed, name, fails

    async def execute(self, tool: Tool, params: dict[str, Any], context: Any) -> Any:
        return params

    async def close(self) -> None:
        assert self.closed is not None
        self.closed.append(self.name)
        if self.fails:
            raise RuntimeError("cannot close")


def test_builtin_executors(make: Make) -> None:
    """K6, K52: `entry.handler` names the executor; each is made once."""
    registry = ExecutorRegistry()
    for name, kind in (
        ("echo", EchoExecutor),
        ("calculator", CalculatorExecutor),
        ("http_request", HTTPExecutor),
        ("search_tools", ToolSearchExecutor),
        ("run_command", CommandExecutor),
    ):
        found = registry.resolve(make({"type": "builtin", "handler": name}))
        assert type(found) is kind
        assert registry.resolve(make({"handler": name}, name="other")) is found
    assert set(BUILTIN_EXECUTORS) <= set(registry.names())


def test_the_tools_name_is_the_default_handler(make: Make) -> None:
    """U17: without `entry.handler`, the tool's own name is the handler."""
    registry = ExecutorRegistry()
    assert type(registry.resolve(make({"type": "builtin"}, name="echo"))) is EchoExecutor


def test_registered_executors_come_first(make: Make) -> None:
    """U17: what is registered in code wins over the table and over a declared request."""
    registry, own = ExecutorRegistry(), Own()
    registry.register("echo", own)
    registry.register("sample", own)
    assert registry.resolve(make({"handler": "echo"})) is own
    assert registry.get("echo") is own
    assert registry.resolve(make({"type": "http", "request": {"url": "https://h/"}})) is own
    assert repr(registry) == "ExecutorRegistry(registered=['echo', 'sample'], loaded=[])"


def test_a_declared_request_is_run_by_http(make: Make) -> None:
    """A tool with a request and no handler is HTTP, even if it is named like a built-in one."""
    registry = ExecutorRegistry()
    entry = {"type": "http", "request": {"url": "https://h/"}}
    found = registry.resolve(make(entry))
    assert type(found) is HTTPExecutor
    assert registry.resolve(make(entry, name="calculator")) is found
    assert registry.get("http_request") is found


def test_nobody_offers_it(make: Make) -> None:
    """K25: no executor is None, and the nearest name helps the author."""
    registry = ExecutorRegistry()
    assert registry.resolve(make({"handler": "calculater"})) is None
    assert registry.missing_cure(make({"handler": "calculater"}))[1] == "calculator"
    assert registry.missing_cure(make({"handler": "zzzzzz"}))[1] == ""
    for word, meant in (("file_read", "read_file"), ("ls", "read_folder"), ("exec", "run_command")):
        assert registry.missing_cure(make({"handler": word}))[1] == meant
    for entry, cure in (
        ({"type": "http", "handler": "zzzzzz", "request": {}}, "leave out handler, so that 'req"),
        ({"type": "javascript", "handler": "zzzzzz.js"}, "run it as a program: {type: builtin, ar"),
        ({"type": "builtin"}, "add handler, such as echo, calculator"),
        ({"type": "http"}, "add request: {url: 'https://...'}"),
    ):
        assert registry.missing_cure(make(entry))[0].startswith(cure)


@pytest.mark.parametrize(
    ("name", "executor", "message"),
    [
        ("", Own(), "non-empty"),
        (7, Own(), "non-empty"),
        ("own", Own, r"not the class Own; write Own\(\)"),
        ("own", lambda: 1, "got function; for a plain function use register_tool"),
        ("own", object(), "must have a method execute"),
    ],
)
def test_what_is_no_executor(name: Any, executor: Any, message: str) -> None:
    """A mistake shows when it is made, with its cure."""
    with pytest.raises(ConfigurationError, match=message):
        ExecutorRegistry().register(name, executor)


async def test_close_in_reverse_order(make: Make) -> None:
    """Each is closed once, the last first; one that fails is logged and stops no other."""
    registry, closed = ExecutorRegistry(), list[str]()
    first, broken, last = Own(closed, "a"), Own(closed, "b", fails=True), Own(closed, "c")
    registry.register("a", first)
    registry.resolve(make({"handler": "echo"}))
    registry.register("b", broken)
    registry.register("c", last)
    registry.register("also_c", last)
    with structlog.testing.capture_logs() as logs:
        await registry.close()
        await registry.close()
    assert closed == ["c", "b", "a"]
    assert [(log["event"], log["error"]) for log in logs] == [
        ("executor_close_failed", "RuntimeError: cannot close")
    ]


async def test_a_plain_close() -> None:
    """An executor whose `close` is a plain method is closed too."""
    closed = []

    class Plain(Own):
        def close(self) -> None:  # type: ignore[override]
            closed.append(1)

    registry = ExecutorRegistry()
    registry.register("plain", Plain())
    await registry.close()
    assert closed == [1]


PLUGIN = """
from tool_engine.errors import MissingExtraError
class Good:
    async def execute(self, tool, params, context):
        return "good"
good = Good()
class Broken:
    def __init__(self):
        raise RuntimeError("no licence")
class Empty:
    pass
class Extra:
    def __init__(self):
        raise MissingExtraError("pip install 'sample[extra]'")
"""


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A real installed package, with entry points, in a folder of its own."""
    (tmp_path / "sample_executors_plugin.py").write_text(PLUGIN)
    lines = {
        "one": [
            "good_class = P:Good",
            "good_object = P:good",
            "twice = P:Good",
            "broken = P:Broken",
        ],
        "two": ["twice = P:good", "empty = P:Empty", "extra = P:Extra", "gone = P:Gone"],
    }
    for package, points in lines.items():
        info = tmp_path / f"{package}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        text = "\n".join(points).replace("P:", "sample_executors_plugin:")
        (info / "entry_points.txt").write_text(f"[tool_engine.executors]\n{text}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    sys.modules.pop("sample_executors_plugin", None)


@pytest.mark.usefixtures("plugin")
class TestEntryPoints:
    """What an installed package offers under `tool_engine.executors`."""

    @pytest.mark.parametrize("name", ["good_class", "good_object"])
    async def test_found(self, name: str, make: Make) -> None:
        """A class is made, an object taken as it is; both once."""
        registry = ExecutorRegistry()
        tools = [make({"handler": name}), make({"handler": "broken"})]
        await asyncio.to_thread(registry.prepare, tools)
        found = registry.resolve(make({"handler": name}))
        assert found is not None
        assert await found.execute(make({}), {}, None) == "good"  # type: ignore[arg-type]
        assert registry.get(name) is found
        assert name in registry.names()
        assert registry.missing_cure(make({"handler": f"{name}s"}))[1] == name

    @pytest.mark.parametrize(
        ("name", "reason"),
        [
            ("broken", r"'broken' of one \(.*Broken\) cannot be loaded: RuntimeError: no licence"),
            ("gone", r"'gone' of two .* AttributeError"),
            ("empty", "must have a method execute"),
            ("twice", "offered by (one|two) .* and (two|one) "),
        ],
    )
    def test_broken(self, name: str, reason: str) -> None:
        """A broken package is named in a typed error; the engine goes on."""
        registry = ExecutorRegistry()
        with pytest.raises(ExecutorNotFoundError, match=reason):
            registry.get(name)
        assert registry.get("echo") is not None

    def test_missing_extra(self) -> None:
        """What says how to install itself is passed on as it is."""
        with pytest.raises(MissingExtraError, match="pip install"):
            ExecutorRegistry().get("extra")


def test_an_unknown_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """An entry point without a distribution is named all the same."""
    from importlib.metadata import EntryPoint

    registry = ExecutorRegistry()
    registry._entry_points = {"x": [EntryPoint("x", "no_such_module:X", "tool_engine.executors")]}
    with pytest.raises(ExecutorNotFoundError, match="an unknown package"):
        registry.get("x")


def test_prepare(make: Make) -> None:
    """What tools need is imported; nothing is made, nothing fails."""
    registry = ExecutorRegistry()
    tools = [make({"handler": "echo"}), make({"request": {"url": "https://h/"}}), make({})]
    registry.prepare(tools)
    assert repr(registry) == "ExecutorRegistry(registered=[], loaded=[])"
    assert registry.resolve(make({})) is None


def test_check(make: Make) -> None:
    """A mistake in the entry of an HTTP tool is found before the first call."""
    registry = ExecutorRegistry()
    problems = registry.check(make({"request": {"url": "https://h/", "metod": "GET"}}))
    assert [str(problem) for problem in problems] == [
        "tool 'sample': entry.request.metod: unknown key 'metod'; did you mean 'method'?"
    ]
    assert registry.check(make({"handler": "http_request", "alow": []}, "url"))
    assert registry.check(make({"handler": "http_request"}, "url")) == []
    registry.register("sample", Own())
    assert registry.check(make({"request": {"metod": 1}})) == []


@pytest.mark.parametrize("handler", BUILTIN_EXECUTORS)
@pytest.mark.parametrize("where", ["beside it", "in config"])
def test_no_built_in_handler_takes_a_key_that_it_never_uses(
    make: Make, handler: str, where: str
) -> None:
    """What an author asks for runs, or the entry is refused: `echo` sends no request.

    Looked at: every built-in handler, Python functions, handlers of packages and of programs,
    which take keys of their own.
    """
    registry, strange = ExecutorRegistry(), {"strange": 1}
    more = strange if where == "beside it" else {"config": strange}
    key = "entry.strange" if where == "beside it" else "entry.config"
    entry = {"type": "custom", "handler": handler, **more}
    assert any(problem.path.startswith(key) for problem in registry.check(make(entry)))
    registry.register(handler, Own())
    assert registry.check(make(entry)) == []


@pytest.mark.parametrize("handler", ["echo", "calculator", "search_tools", "read_result"])
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("request", {"url": "https://h/"}),
        ("sql", "SELECT 1"),
        ("steps", [{"id": "a", "tool": "x"}]),
        ("argv", ["ls"]),
    ],
)
def test_the_cures_of_a_key_that_a_handler_never_uses(
    make: Make, handler: str, key: str, value: Any
) -> None:
    """Without the key the entry is right; without the handler the key says what runs."""
    registry = ExecutorRegistry()
    entry = {"type": "custom", "handler": handler, key: value}
    (problem,) = registry.check(make(entry))
    assert str(problem) == (
        f"tool 'sample': entry.{key}: {handler} never uses '{key}'; remove it, or remove "
        f"'handler' so that '{key}' says what runs"
    )
    assert registry.check(make({"type": "custom", "handler": handler})) == []
    assert registry.name_of(make({"type": "custom", key: value})) != handler


@pytest.mark.parametrize("handler", ["read_file", "run_shell_command", "sql_query", "run_command"])
def test_work_of_another_handler(make: Make, handler: str) -> None:
    """A handler that reads keys of its own says the same of those of another one."""
    entry = {"type": "builtin", "handler": handler, "steps": [], "root": "."}
    found = [str(each) for each in ExecutorRegistry().check(make(entry))]
    words = f"{handler} never uses 'steps'; remove it, or remove 'handler' so that 'steps' says"
    assert any(words in each for each in found)


def test_settings_of_a_handler_that_has_none(make: Make) -> None:
    """A setting is refused by its name; an empty `config` asks for nothing."""
    registry = ExecutorRegistry()
    found = registry.check(make({"type": "builtin", "config": {"zzz": 1}}, name="echo"))
    assert [str(problem) for problem in found] == [
        "tool 'echo': entry.config.zzz: echo has no settings; remove 'zzz'"
    ]
    assert registry.check(make({"handler": "echo", "config": {}})) == []
    assert registry.check(make({"handler": "echo", "config": 1}))


def test_loading_the_registry_loads_no_executor() -> None:
    """aiohttp is imported when the first HTTP tool runs, not before."""
    program = (
        "import sys, tool_engine.executors.executor_registry as r\n"
        "heavy = {'aiohttp', 'yarl', 'jmespath'}\n"
        "r.ExecutorRegistry().get('echo'); r.ExecutorRegistry().get('calculator')\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], check=False, capture_output=True, text=True
    )
    assert (ended.stdout, ended.stderr) == ("[]\n", "")


def test_what_a_check_depends_on(make: Make) -> None:
    """A tool whose handler the program registered is not checked, and the key tells so."""
    registry = ExecutorRegistry()
    broken = make({"type": "builtin", "handler": "http_request", "request": {"nonsense": 1}})
    before = registry.check_key()
    assert registry.check(broken)
    registry.register("http_request", Own())
    assert registry.check(broken) == []
    assert registry.check_key() != before
