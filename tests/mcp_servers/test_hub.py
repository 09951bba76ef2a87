"""The servers that a configuration and files name run, come and go with them."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
import yaml

from tests import warm
from tests.executors.mcp.conftest import LIMIT, count_running, serve_http
from tests.mcp_servers.programs import PROGRAM, entry, program, python
from tests.warm import SDK
from tool_engine import ConcurrencyConfig, QueueApprover, ToolEngine, ToolEngineConfig
from tool_engine.executors.mcp.server_settings import MCPServerSettings
from tool_engine.model.approval import ApprovalDecision, ApprovalRequest

SERVER = {
    "kind": "mcp_server",
    "name": "files",
    **program(str(PROGRAM)),
}
SHOUT: dict[str, Any] = {
    "name": "shout",
    "description": "Shouts.",
    "parameters": {"type": "object", "properties": {"text": {"type": "string"}}},
    "entry": {"type": "mcp", "server": "one", "tool": "echo"},
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tools").mkdir()
    return tmp_path


def write(folder: Path, name: str, definition: dict[str, Any]) -> None:
    (folder / "tools" / f"{name}.yaml").write_text(yaml.safe_dump(definition))


def name_servers(folder: Path, **entries: Any) -> None:
    (folder / ".mcp.json").write_text(json.dumps({"mcpServers": entries}))


def engine_of(folder: Path, *, approver: Any = None, **fields: Any) -> ToolEngine:
    settings = {"auto_reload": False, "mcp_servers": str(folder / ".mcp.json"), **fields}
    settings = {"mcp_start_timeout": LIMIT, **settings}
    config = ToolEngineConfig(tools_directory=str(folder / "tools"), **settings)
    return ToolEngine(config, approver=approver)


class Willing:
    """Says yes to all."""

    async def approve(self, request: ApprovalRequest) -> ApprovalDecision:
        return ApprovalDecision(is_approved=True)


async def said(engine: ToolEngine, name: str, **params: Any) -> str:
    result = await engine.execute(name, params)
    return str(result.output["content"][0]["text"] if result.is_success else result.error)


async def until(is_so: Callable[[], bool]) -> None:
    # Programs are started meanwhile, which import for seconds where the machine is busy.
    async with asyncio.timeout(LIMIT):
        while not is_so():  # noqa: ASYNC110 - nothing else tells of it
            await asyncio.sleep(0.02)


async def test_all_come_as_one_change_in_the_order_of_their_naming(folder: Path) -> None:
    """A name that several have gets the server's own in front, and means none of them."""
    slow = entry("one", timeout=7, bucket="mine")
    code = f"import time, runpy; time.sleep(1); runpy.run_path({str(PROGRAM)!r}, "
    slow |= program("-c", f"{code}run_name='__main__')")
    name_servers(folder, one=slow, two=entry("two"))
    write(folder, "files", {**SERVER, "tools": {"ec*": {"timeout": 3}}})
    write(folder, "shout", SHOUT)
    async with engine_of(folder) as engine:
        assert engine.load_errors == []
        assert [each.name for each in engine.list_mcp_servers()] == ["one", "two", "files"]
        assert [each.cause for each in engine.generations()].count("source") == 1
        said_back = [await said(engine, name, text="hi") for name in ("one_echo", "shout")]
        assert said_back == ["hi", "hi"]
        whoami = [(await said(engine, name)).split()[-1] for name in ("one_whoami", "two_whoami")]
        assert whoami == ["one", "two"]
        assert "echo" not in engine.index
        first = engine.get_or_raise("one_echo")
        assert (first.timeout, first.bucket, first.origin) == (7, "mine", "mcp:one")
        assert engine.get_or_raise("files_echo").timeout == 3
        assert "is of <mcp:one>" in engine.get_or_raise("two_echo").findings[0]


async def test_what_cannot_be_used_never_stops_the_others(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_SUCH_VARIABLE", raising=False)
    name_servers(
        folder,
        wrong={"comand": "x"},
        gone={"command": str(folder / "no-such-program")},
        unset={"command": "x", "args": ["${NO_SUCH_VARIABLE}"]},
        off={**entry("off"), "disabled": True},
        good=entry("good"),
    )
    write(folder, "wrong", {"kind": "mcp_server", "name": "w", "command": "x", "timout": 1})
    write(folder, "lost", {**SHOUT, "entry": {**SHOUT["entry"], "server": "god"}})
    async with engine_of(folder) as engine:
        assert await said(engine, "echo", text="hi") == "hi"
        errors = "\n".join(text for _, text in engine.load_errors)
        assert "mcpServers.wrong.comand: unknown key 'comand'; did you mean 'command'?" in errors
        assert "the server 'unset' needs the variable NO_SUCH_VARIABLE, which is not set" in errors
        assert "wrong.yaml:4:1: timout: unknown key 'timout'; did you mean 'timeout'?" in errors
        assert "is of the server 'god', which is not there; did you mean 'good'?" in errors
        assert "<mcp:gone>" in [place for place, _ in engine.load_errors]
        assert "the server 'god' is not there" in await said(engine, "shout")
        states = {each.name: each for each in engine.list_mcp_servers()}
        assert states["off"].state == "is turned off"
        assert (states["good"].is_connected, states["gone"].is_connected) == (True, False)


async def test_a_name_in_a_file_and_in_the_configuration_is_an_error(folder: Path) -> None:
    off = {"command": "x", "disabled": True}
    name_servers(folder, files=off)
    write(folder, "files", SERVER)
    write(folder, "again", {**SERVER, "name": "twice"})
    write(folder, "other", {**SERVER, "name": "twice"})
    async with engine_of(folder) as engine:
        assert [each.name for each in engine.list_mcp_servers()] == ["files"]
        errors = dict(engine.load_errors)
    place = f"{folder}/tools"
    assert (
        f"the server 'files' is also named in {folder}/.mcp.json" in errors[f"{place}/files.yaml"]
    )
    assert f"'twice' is also defined in {place}/other.yaml" in errors[f"{place}/again.yaml"]


async def test_a_changed_file_changes_only_the_servers_that_differ(folder: Path) -> None:
    name_servers(folder, one=entry("one"), two=entry("two"))
    async with engine_of(folder) as engine:
        one, two = await said(engine, "one_whoami"), await said(engine, "two_whoami")
        name_servers(folder, one=entry("one"), two=entry("TWO", timeout=3))
        changes = await engine.reload()
        assert await said(engine, "one_whoami") == one
        assert await said(engine, "two_whoami") != two
        assert engine.get_or_raise("two_echo").timeout == 3
        assert changes["removed"] == [], "its tools stay until the new ones come"
        (folder / ".mcp.json").write_text('{"mcpServers": {"one": {"command": 3}}, ')
        await engine.reload()
        assert "two_echo" in engine.index, "a broken file changes nothing"
        assert "this is no JSON" in engine.load_errors[0][1]
        name_servers(folder, one={"command": 3})
        await engine.reload()
        assert await said(engine, "whoami") == one, "a broken entry keeps its server"
        assert "two_echo" not in engine.index
        name_servers(folder)
        await engine.reload()
        assert (len(engine.index), engine.load_errors) == (0, [])


async def test_a_server_that_is_started_anew_has_the_calls_that_wait(folder: Path) -> None:
    """One program takes the place of another with the very same tools: none is called any more."""
    own = {"tools": {"echo": {"permission": "ask_always"}}}
    name_servers(folder, one=entry("one", **own))
    queue = QueueApprover()
    slots = ConcurrencyConfig(max_concurrent=1)
    async with engine_of(folder, approver=queue, concurrency=slots) as engine:
        first = await said(engine, "whoami")
        engine.controller.pause()
        queued = asyncio.create_task(said(engine, "whoami"))
        asking = asyncio.create_task(said(engine, "echo", text="a"))
        await until(lambda: bool(queue.pending_approvals))
        (former,) = queue.pending_approvals
        name_servers(folder, one=entry("ONE", **own))
        await engine.reload()
        # The question was about the program that is not there any more.
        await until(lambda: bool(queue.pending_approvals) and former not in queue.pending_approvals)
        (present,) = queue.pending_approvals
        queue.allow(present.token)
        engine.controller.resume()
        assert await asking == "a"
        assert await queued == await said(engine, "whoami") != first


async def test_what_holds_here_changes_without_a_new_program(folder: Path) -> None:
    """A call of before goes on; the tools are as the entry says now."""
    name_servers(folder, one=entry("one"), two=entry("two"))
    async with engine_of(folder) as engine:
        before = await said(engine, "one_whoami")
        own: dict[str, Any] = {"timeout": 3, "tools": {"whoami": {"effect": "read"}}}
        own |= {"expose": ["whoami"], "connect_timeout": 20}
        name_servers(folder, one=entry("one", **own), two=entry("two"))
        changes = await engine.reload()
        assert "one_echo" in changes["removed"]
        assert "one_whoami" in changes["modified"]
        tool = engine.get_or_raise("one_whoami")
        assert (tool.timeout, tool.effect) == (3, "read")
        assert await said(engine, "one_whoami") == before
        name_servers(folder, one=entry("one", prefix="x"), two=entry("two"))
        await engine.reload()
        assert await said(engine, "x_whoami") == before
        name_servers(folder, one=entry("one", idle_timeout=0.2), two=entry("two"))
        await engine.reload()
        assert "(idle_timeout)" in await said(engine, "one_slow")
        assert engine.load_errors == []


async def test_a_file_is_followed_like_the_folder(folder: Path) -> None:
    name_servers(folder)
    async with engine_of(folder, auto_reload=True, reload_interval=0.05) as engine:
        name_servers(folder, one=entry("one"))
        await until(lambda: "echo" in engine.index)
        write(folder, "files", SERVER)
        await until(lambda: "files_echo" in engine.index)
        (folder / "tools" / "files.yaml").unlink()
        await until(lambda: "files_echo" not in engine.index)
        assert "echo" in engine.index
        assert engine.load_errors == []


async def test_a_slow_server_is_not_waited_for_and_comes_later(folder: Path) -> None:
    gate = folder / "gate"
    late = entry("late")
    code = f"import time, os, runpy\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.02)\n"
    late |= program("-c", f"{code}runpy.run_path({str(PROGRAM)!r}, run_name='__main__')")
    name_servers(folder, hangs=python("import time; time.sleep(600)"), late=late)
    async with engine_of(folder, mcp_start_timeout=0.2) as engine:
        errors = [text for _, text in engine.load_errors]
        assert any("'late' has not answered within 0.2 s" in text for text in errors)
        gate.touch()
        await until(lambda: "echo" in engine.index)
        await until(lambda: not any("'late'" in text for _, text in engine.load_errors))
        assert any("'hangs' has not" in text for _, text in engine.load_errors)


async def test_a_program_of_a_file_does_not_run_before_it_is_approved(folder: Path) -> None:
    def write_program(trace: Path) -> None:
        code = f"open({str(trace)!r}, 'a').write('x')"
        write(folder, "odd", {**SERVER, "name": "odd", "args": ["-c", code]})

    trace, changed = folder / "trace", folder / "changed"
    write_program(trace)
    async with engine_of(folder, mcp_servers=None, lock="enforce") as engine:
        assert not trace.exists()
        (state,) = engine.list_mcp_servers()
        assert (state.name, state.state) == ("odd", "is quarantined")
        await engine.lock_tools(["server:odd"])
        await until(trace.exists)
        write_program(changed)
        await engine.reload()
        message = "its definition is not the one that was approved; read it, then `tool-engine lock"
        assert any(message in text for _, text in engine.load_errors)
        assert not changed.exists()


async def test_tools_of_a_server_need_an_approval_of_their_own(folder: Path) -> None:
    write(folder, "files", SERVER)
    async with engine_of(folder, mcp_servers=None, lock="enforce") as engine:
        await engine.lock_tools(["server:files"])
        await until(lambda: len(engine.quarantined()) > 0)
        assert "`tool-engine lock --approve echo`" in await said(engine, "echo")
        await engine.lock_tools(["echo"])
        assert await said(engine, "echo", text="hi") == "hi"


CHANGING = """
import asyncio, sys
sys.path.insert(0, {root!r})
from tests.executors.mcp import server_program as program
list_tools = program.list_tools

async def list_changed(ctx, params):
    listed = await list_tools(ctx, params)
    for tool in listed.tools:
        tool.description += "".join(program.extra)
    return listed

program.list_tools = list_changed
asyncio.run(program.speak_lines())
"""


async def test_a_file_does_not_call_a_tool_that_its_server_has_changed(folder: Path) -> None:
    """Under whatever name it is called: once approved, it is called only as it was."""
    changing = folder / "changing.py"
    changing.write_text(CHANGING.format(root=str(Path(__file__).parents[2])))
    write(folder, "files", {**SERVER, **program(str(changing))})
    shout = {**SHOUT, "entry": {**SHOUT["entry"], "server": "files"}}
    write(folder, "shout", shout)
    write(folder, "whisper", {**shout, "name": "whisper", "entry": {**shout["entry"], "tool": "x"}})
    async with engine_of(folder, mcp_servers=None, lock="enforce") as engine:
        await engine.lock_tools()
        await until(lambda: len(engine.quarantined()) > 1)
        # One that was never approved is what its file says, and no other.
        assert await said(engine, "shout", text="hi") == "hi"
        await engine.lock_tools()
        await engine.execute("grow", {"text": "!"})
        await until(lambda: "echo" in {each.name for each in engine.quarantined()})
        result = await engine.execute("shout", {"text": "hi"})
        assert "the server 'files' has changed its tool 'echo'" in str(result.error)
        assert "`tool-engine lock --approve echo`" in str(result.error)
        assert "has changed" not in await said(engine, "whisper", text="hi")
        await engine.lock_tools(["echo"])
        assert await said(engine, "shout", text="hi") == "hi"


async def test_a_program_of_the_configuration_needs_an_approval_too(folder: Path) -> None:
    """Whatever names it: a file, a mapping, or settings; another one does not run."""
    trace = folder / "trace"

    def programs(code: str) -> list[Any]:
        made = {"command": sys.executable, "args": ["-c", code]}
        name_servers(folder, odd=made)
        settings = MCPServerSettings(name="odd", command=(sys.executable, "-c", code))
        return [str(folder / ".mcp.json"), {"odd": made}, [settings]]

    good, evil = (f"open({str(trace)!r}, 'a').write({word!r})" for word in ("good", "evil"))
    for number in range(3):
        (folder / "tools.lock").unlink(missing_ok=True)
        async with engine_of(folder, mcp_servers=programs(good)[number], lock="enforce") as engine:
            assert not trace.exists()
            (state,) = engine.list_mcp_servers()
            assert (state.name, state.state, state.tools) == ("odd", "is quarantined", ())
            message = "the server 'odd' is quarantined, and does not run: "
            assert message in str(engine.load_errors)
            await engine.lock_tools(["server:odd"])
            await until(trace.exists)
        assert "[servers]\nodd = " in (folder / "tools.lock").read_text()
        trace.unlink()
        async with engine_of(folder, mcp_servers=programs(good)[number], lock="enforce"):
            await until(trace.exists)
        trace.unlink()
        async with engine_of(folder, mcp_servers=programs(evil)[number], lock="enforce") as engine:
            assert "is not the one that was approved" in engine.load_errors[-1][1]
            assert not trace.exists()


async def test_an_approved_server_of_the_configuration_stops_when_it_changes(folder: Path) -> None:
    name_servers(folder, one=entry("one"))
    async with engine_of(folder, lock="enforce") as engine:
        await engine.lock_tools(["server:one"])
        await engine.lock_tools(["server:one", "echo"])
        assert await said(engine, "echo", text="hi") == "hi"
        name_servers(folder, one=entry("other"))
        changes = await engine.reload()
        assert changes["removed"] == ["echo"]
        assert engine.list_mcp_servers()[0].state == "is quarantined"
        await engine.lock_tools(["server:one"])
        assert await said(engine, "echo", text="hi") == "hi"


async def test_an_approval_holds_where_the_project_is_checked_out(folder: Path) -> None:
    """The lock file is kept with the project, and says nothing of the machine."""
    for name in ("here", "there"):
        (folder / name / "tools").mkdir(parents=True)
        name_servers(folder / name, one={**entry("one"), "cwd": "."})
    async with engine_of(folder / "here", lock="enforce") as engine:
        await engine.lock_tools(["server:one"])
    (folder / "there" / "tools.lock").write_text((folder / "here" / "tools.lock").read_text())
    async with engine_of(folder / "there", lock="enforce") as engine:
        assert engine.load_errors == []


async def test_the_lock_knows_servers_that_do_not_run_yet(folder: Path) -> None:
    name_servers(folder, one=entry())
    async with engine_of(folder, lock="enforce", mcp_autostart=False) as engine:
        assert [each.name for each in await engine.check_lock()] == ["server:one"]
        await engine.lock_tools()
    assert "[servers]\none = " in (folder / "tools.lock").read_text()


async def test_a_reload_tells_what_servers_have_changed(folder: Path) -> None:
    name_servers(folder, one=entry("one", expose=["echo"]))
    async with engine_of(folder) as engine:
        name_servers(folder, one=entry("one", expose=["whoami"]))
        assert await engine.reload() == {"added": ["whoami"], "modified": [], "removed": ["echo"]}
        name_servers(folder, one=entry("one", expose=["whoami"], timeout=3))
        assert await engine.reload() == {"added": [], "modified": ["whoami"], "removed": []}
        name_servers(folder)
        write(folder, "shout", SHOUT)
        assert await engine.reload() == {"added": ["shout"], "modified": [], "removed": ["whoami"]}
    name_servers(folder, one=entry("one", expose=["echo"]))
    (folder / "tools" / "shout.yaml").unlink()
    async with engine_of(folder) as engine:
        await engine.lock_tools()
    (folder / "tools.lock").write_text(
        (folder / "tools.lock").read_text().replace("\none = ", "\ntwo = ")
    )
    async with engine_of(folder, lock="enforce") as engine:
        assert len(engine.index) == 0
        changes = await engine.lock_tools(["server:one"])
        assert changes == {"added": ["echo"], "modified": [], "removed": []}


async def test_the_server_of_a_file_hears_of_a_call_that_is_given_up(folder: Path) -> None:
    """By a scope of anyio, too, which cancels again and again."""
    name_servers(folder, one=entry("one", expose=["echo", "given_up"]))
    write(folder, "wait", {**SHOUT, "name": "wait", "entry": {**SHOUT["entry"], "tool": "slow"}})
    async with engine_of(folder) as engine:
        async with anyio.create_task_group() as group:
            group.start_soon(engine.execute, "wait", {"text": "scope"})
            await until(lambda: count_running(engine) == 1)
            await engine.execute("echo", {})  # behind it on the way: the server has it
            group.cancel_scope.cancel()
        async with asyncio.timeout(LIMIT):
            while await said(engine, "given_up") != "scope":  # noqa: ASYNC110 - it happens in another process
                await asyncio.sleep(0.01)
        assert count_running(engine) == 0


async def test_a_file_names_a_tool_that_its_server_has(folder: Path) -> None:
    name_servers(folder, one=entry("one", expose=["echo"]))
    write(folder, "shout", {**SHOUT, "entry": {**SHOUT["entry"], "tool": "eco"}})
    async with engine_of(folder) as engine:
        ((place, message),) = engine.load_errors
        assert place == f"{folder}/tools/shout.yaml"
        what = "the server 'one' of the tool 'shout' has no tool 'eco'; did you mean 'echo'?"
        assert message == f"{place}: {what}"
        write(folder, "shout", {**SHOUT, "entry": {**SHOUT["entry"], "tool": "whoami"}})
        await engine.reload()
        assert engine.load_errors == [], "a file may name what is not exposed"


async def test_each_failure_is_told_once_and_as_it_is(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that is named is there, also where nothing can be done with it."""
    monkeypatch.delenv("NO_SUCH_VARIABLE", raising=False)
    unset = {"command": "x", "args": ["${NO_SUCH_VARIABLE}"]}
    off = {**entry("off"), "disabled": True}
    name_servers(folder, wrong={"command": 3}, unset=unset, off=off)
    for name in ("wrong", "unset", "off"):
        write(folder, name, {**SHOUT, "name": name, "entry": {**SHOUT["entry"], "server": name}})
    engine = engine_of(folder)
    told: list[str] = []
    engine.subscribe(lambda event: told.append(str(event.error)), "load_error")
    async with engine:
        assert [place for place, _ in engine.load_errors] == [str(folder / ".mcp.json")] * 2
        assert sorted(told) == sorted(text for _, text in engine.load_errors)
        assert engine.list_mcp_errors() == engine.load_errors
        place = folder / ".mcp.json"
        assert f"the entry of the server 'wrong' in {place} is wrong" in await said(engine, "wrong")
        assert "needs the variable NO_SUCH_VARIABLE" in await said(engine, "unset")
        assert f"the server 'off' is turned off in {place}" in await said(engine, "off")


async def test_settings_that_do_not_fit_a_tool_have_their_place(folder: Path) -> None:
    name_servers(folder, one=entry("one", tools={"echo": {"retry": {"attempts": 3}}}))
    async with engine_of(folder) as engine:
        ((_, message),) = engine.load_errors
        assert f"'mcp:one' is left out: {folder}/.mcp.json:1:" in message
        assert ": retry: retry applies only" in message


async def test_a_server_over_http(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its address may be a variable's, and it may come and go like a program."""
    with serve_http() as url:
        monkeypatch.setenv("ITS_URL", url)
        headers = {"X-Who": "${WHO_AM_I:-me}"}
        web = {"type": "streamable-http", "serverUrl": "${ITS_URL}", "headers": headers}
        name_servers(folder, web=web, program=entry())
        async with engine_of(folder) as engine:
            # An address is waited for a moment longer than the others, which a busy machine needs.
            await until(lambda: "web_echo" in engine.index)
            assert engine.load_errors == []
            assert await said(engine, "web_echo", text="hi") == "hi"
            name_servers(folder, program=entry())
            await engine.reload()
            assert engine.get_or_raise("echo").origin == "mcp:program"


async def test_servers_may_be_given_as_values(folder: Path) -> None:
    settings = MCPServerSettings(name="given", command=(*warm.python(*SDK), str(PROGRAM)))
    for servers in ([settings], {"given": entry()}):
        async with engine_of(folder, mcp_servers=servers) as engine:
            assert await said(engine, "echo", text="hi") == "hi"
            assert engine.get_or_raise("echo").origin == "mcp:given"


async def test_they_start_when_they_are_told_to(folder: Path) -> None:
    name_servers(folder, one=entry())
    async with engine_of(folder, mcp_autostart=False) as engine:
        assert (len(engine.index), engine.list_mcp_servers()) == (0, [])
        await engine.start_mcp_servers()
        assert await said(engine, "echo", text="hi") == "hi"


async def test_an_engine_may_close_while_they_start(folder: Path) -> None:
    name_servers(folder, one=entry(), hangs=python("import time; time.sleep(600)"))
    engine = engine_of(folder)
    loading = asyncio.create_task(engine.load())
    await asyncio.sleep(0)
    await engine.close()
    with pytest.raises(Exception, match="closed"):
        await loading
    assert not [each for each in asyncio.all_tasks() if "mcp" in each.get_name()]


def test_without_servers_nothing_of_them_is_loaded(folder: Path) -> None:
    code = (
        "import asyncio, sys; from tool_engine import ToolEngine, ToolEngineConfig\n"
        f"async def main():\n  async with ToolEngine(ToolEngineConfig({str(folder)!r})): pass\n"
        "asyncio.run(main()); print([n for n in sys.modules if n.startswith('mcp') or 'mcp_' in n])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("wanted", "own", "is_free"),
    [
        ("ask_always", None, False),
        ("ask_always", "ask_once", False),
        ("ask_once", "ask_always", True),
        ({"execution": "auto", "result": "always"}, None, False),
        ("deny", "ask_always", False),
        ("auto", None, True),
    ],
)
async def test_a_file_asks_no_less_than_its_server_does(
    folder: Path, wanted: Any, own: str | None, is_free: bool
) -> None:
    """What the settings of a server say of consent holds for tools of files, too."""
    permission = {"permission": wanted}
    name_servers(folder, one=entry("one", tools={"echo": permission}))
    write(folder, "shout", SHOUT if own is None else {**SHOUT, "permission": own})
    async with engine_of(folder, approver=Willing()) as engine:
        answer = await said(engine, "shout", text="hi")
        assert (answer == "hi") is is_free
        assert ("write the same permission into the file" in answer) is not is_free


@pytest.mark.parametrize("key", ["server", "tool"])
async def test_an_entry_names_both(folder: Path, key: str) -> None:
    """Neither is guessed."""
    half = {name: value for name, value in SHOUT["entry"].items() if name != key}
    write(folder, "shout", {**SHOUT, "entry": half})
    async with engine_of(folder, mcp_servers=None) as engine:
        assert engine.get("shout") is None
        ((_, error),) = engine.load_errors
        assert f"entry.{key}" in error


async def test_a_server_comes_although_its_reload_was_given_up(folder: Path) -> None:
    """A caller that does not wait any more takes no server from all others."""
    gate = folder / "gate"
    code = f"import os, time, runpy; open({str(folder / 'begun')!r}, 'w')\n"
    code += f"while not os.path.exists({str(gate)!r}): time.sleep(0.02)\n"
    slow = entry("one")
    slow |= program("-c", f"{code}runpy.run_path({str(PROGRAM)!r}, run_name='__main__')")
    name_servers(folder)
    async with engine_of(folder) as engine:
        name_servers(folder, one=slow)
        reloading = asyncio.create_task(engine.reload())
        await until((folder / "begun").exists)
        reloading.cancel()
        await asyncio.wait([reloading])
        assert reloading.cancelled()
        gate.touch()
        await until(lambda: "echo" in engine.index)
        assert not engine.load_errors
