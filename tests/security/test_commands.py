"""Attacks on command tools: real programs, real processes, looked for in /proc afterwards.

A model writes every value; the definition is its author's. The worst that a value may reach is to
be one argument of the program that the author chose, and nothing of a call may outlive it.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import threading
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.effort import IS_WHOLE
from tests.security.heartbeat import assert_beats_on
from tool_engine import Tool, ToolEngine, ToolEngineConfig, ToolExecutionContext
from tool_engine.errors import DefinitionError, ToolExecutionError
from tool_engine.executors.commands.command_executor import CommandExecutor
from tool_engine.executors.commands.supervisor import MAX_FLOOD
from tool_engine.model.parameter import ToolParameter
from tool_engine.model.tool import ToolCategory

BOUND = 20.0

HOSTILE = (
    "; touch canary",
    "$(touch canary)",
    "`touch canary`",
    "a\ntouch canary\n",
    "&& touch canary",
    "| touch canary",
    "> canary",
    "*",
    "~",
    "$HOME",
    "${IFS}x",
    "{x}",
    "${env:HOME}",
    "'",
    '"',
    "\\",
    "a b  c",
    "\u202e\u200b\x1b[2J",
    "é\U0001f600",
    "",
)
OPTIONS = ("-rf", "--output=/etc/x", "-oProxyCommand=touch canary", "-", "--", "-e", "-1")
IGNORES_TERM = "trap '' TERM HUP INT; "


class Shop:
    """Runs commands whose processes can be found by a tag in their environment."""

    def __init__(self, folder: Path) -> None:
        self.executor = CommandExecutor()
        self.folder = folder
        self.tag = uuid.uuid4().hex

    async def run(
        self, argv: list[str], seconds: float = BOUND, /, config: Any = None, **params: Any
    ) -> Any:
        config = {"env": {"TEST_TAG": self.tag}, **(config or {})}
        argv = [element.replace("TAG", self.tag) for element in argv]
        entry = {"type": "builtin", "argv": argv, "cwd": str(self.folder), "config": config}
        kinds = {str: "string", int: "integer", list: "array", bool: "boolean"}
        parameters = [
            ToolParameter(name, kinds[type(value)], required=True) for name, value in params.items()
        ]
        tool = command(entry, *parameters)
        context = ToolExecutionContext()
        context.deadline = asyncio.get_running_loop().time() + seconds
        async with asyncio.timeout(BOUND):
            return await self.executor.execute(tool, params, context)

    def left(self) -> dict[int, str]:
        """What is alive of all that was started."""
        return dict(tagged(self.tag))


def command(entry: dict[str, Any], *parameters: ToolParameter) -> Tool:
    return Tool(
        id="attacked",
        name="attacked",
        version="1.0.0",
        description="A sample",
        category=ToolCategory.CUSTOM,
        tags=[],
        parameters=list(parameters),
        implementation_config=entry,
    )


def tagged(tag: str) -> Iterator[tuple[int, str]]:
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            with contextlib.suppress(OSError):
                state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
                line = (folder / "cmdline").read_text()
                is_ours = tag in line or tag.encode() in (folder / "environ").read_bytes()
                if is_ours and state not in "ZX":
                    yield int(folder.name), line


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    found = Shop(tmp_path)
    yield found
    assert found.left() == {}
    assert not (tmp_path / "canary").exists()


async def until(is_so: Callable[[], object]) -> None:
    async with asyncio.timeout(BOUND):
        while not await asyncio.to_thread(is_so):  # noqa: ASYNC110 - nothing tells of a process
            await asyncio.sleep(0.01)


def arguments(output: dict[str, Any]) -> list[str]:
    return str(output["stdout"]).split("\0")[:-1]


@pytest.mark.parametrize("value", HOSTILE)
async def test_a_value_stays_one_argument(shop: Shop, value: str) -> None:
    """Nothing in a value splits it, expands it or reaches a shell, wherever it is put."""
    argv = ["printf", r"%s\0", "{x}", "--name={x}", "a{x}b", "{xs...}", "--item={xs...}"]
    output = await shop.run(argv, x=value, xs=[value, "end"])
    assert arguments(output) == [
        value,
        f"--name={value}",
        f"a{value}b",
        value,
        "end",
        f"--item={value}",
        "--item=end",
    ]


@pytest.mark.parametrize("value", HOSTILE)
async def test_a_value_is_no_code_of_a_fixed_script(shop: Shop, value: str) -> None:
    """A script of the author's gets its values as arguments, never as text of the script."""
    script = 'for x in "$@"; do printf "%s\\0" "$x"; done'
    output = await shop.run(["sh", "-c", script, "sh", "{x}"], x=value)
    assert arguments(output) == [value]


@pytest.mark.parametrize("value", OPTIONS)
@pytest.mark.parametrize("argv", [["echo", "{x}"], ["echo", "{xs...}"], ["echo", "{x}{y}"]])
async def test_a_value_is_no_option(shop: Shop, argv: list[str], value: str) -> None:
    """A value that begins with a dash is refused where it could be an option."""
    params: dict[str, Any] = {"x": value}
    if argv[1] == "{xs...}":
        params = {"xs": ["a", value]}
    elif argv[1] == "{x}{y}":
        params = {"x": "", "y": value}
    with pytest.raises(ToolExecutionError, match="begins with '-' and would be taken for"):
        await shop.run(argv, **params)


@pytest.mark.parametrize("value", OPTIONS)
async def test_after_two_dashes_a_value_is_an_operand(shop: Shop, value: str) -> None:
    """The author's own `--` makes every value behind it an operand."""
    output = await shop.run(["printf", r"%s\0", "--", "{x}"], x=value)
    assert arguments(output) == ["--", value]


async def test_a_negative_number_is_no_target_for_kill(shop: Shop) -> None:
    """`kill -9 -1` ends all processes of a user; a number is checked like a text."""
    with pytest.raises(ToolExecutionError, match="begins with '-'"):
        await shop.run(["kill", "-9", "{pid}"], pid=-1)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("a\0b", "NUL character"),
        ("\ud800", "not valid Unicode"),
        ("x" * 131072, "131072 bytes; the most is 131071"),
    ],
)
async def test_what_no_argument_can_hold(shop: Shop, value: str, told: str) -> None:
    """A value that the system cannot take is refused, not cut."""
    for argv in (["echo", "{x}"], ["echo", "{xs...}"]):
        params: dict[str, Any] = {"x": value} if argv[1] == "{x}" else {"xs": [value]}
        with pytest.raises(ToolExecutionError, match=told):
            await shop.run(argv, **params)


async def test_more_arguments_than_the_system_takes(shop: Shop) -> None:
    """A list that is too long as a whole is refused by the system, in words."""
    with pytest.raises(ToolExecutionError, match="too long for this system when put together"):
        await shop.run(["echo", "{xs...}"], xs=["x" * 100_000] * 100)


@pytest.mark.parametrize(
    "argv",
    [
        ["sh", "-c", "ls {x}"],
        ["bash", "-euc", "ls {x}"],
        ["env", "A=b", "/bin/sh", "-c", "{x}"],
        ["python3.11", "-c", "print('{x}')"],
        ["perl", "-ne", "{x}"],
        ["awk", "-F:", "/{x}/"],
        ["sed", "s/a/{x}/"],
        ["{x}", "a"],
        ["./{x}", "a"],
        ["git", "--{x}"],
        ["tar", "-{x}"],
    ],
)
async def test_a_value_in_a_script_is_refused_when_the_tool_is_read(
    shop: Shop, argv: list[str]
) -> None:
    """Where a value would be code, a program or the name of an option, the tool does not load."""
    with pytest.raises(DefinitionError):
        await shop.run(argv, x="a")


async def test_the_environment_stays_here(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program sees what its definition names, and no key that lies about."""
    monkeypatch.setenv("SOME_API_KEY", "key-of-the-owner")
    monkeypatch.setenv("LD_PRELOAD_X", "x")
    output = await shop.run(["env"])
    names = {line.partition("=")[0] for line in output["stdout"].splitlines()}
    assert names == {"PATH", "LANG", "TEST_TAG", "TOOL_ENGINE_COMMAND"}


async def test_a_secret_is_hidden_in_what_comes_back(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that prints its secret does not hand it to the model, nor does its failure."""
    monkeypatch.setenv("SOME_API_KEY", "key-of-the-owner")
    config = {"env": {"KEY": "${env:SOME_API_KEY}", "TEST_TAG": shop.tag}}
    output = await shop.run(["env"], config=config)
    assert "KEY=" in output["stdout"]
    assert "key-of-the-owner" not in str(output)
    with pytest.raises(ToolExecutionError) as caught:
        await shop.run(["sh", "-c", 'echo "$KEY" >&2; exit 3'], config=config)
    assert "key-of-the-owner" not in str(caught.value) + str(caught.value.details)


async def test_a_program_in_the_way_is_not_run(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the engine's PATH nor the folder that the command runs in names the program."""
    trap = shop.folder / "echo"
    trap.write_text("#!/bin/sh\ntouch canary\n")
    trap.chmod(0o755)
    monkeypatch.setenv("PATH", f"{shop.folder}:.")
    assert (await shop.run(["echo", "a"]))["stdout"] == "a\n"


async def test_a_program_that_others_can_replace_is_not_run(shop: Shop) -> None:
    """A program that every user may write, or put another in place of, is refused."""
    program = shop.folder / "bin" / "program"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\ntouch canary\n")
    for place, mode in ((program, 0o777), (program.parent, 0o777)):
        program.chmod(0o755)
        place.chmod(mode)
        with pytest.raises(ToolExecutionError, match="can be replaced by every user") as caught:
            await shop.run([str(program)])
        assert f"chmod o-w {place}" in str(caught.value)
        place.chmod(0o755)


async def test_nothing_gains_rights(shop: Shop) -> None:
    """What a command starts cannot become root by a setuid program; this process is as before."""
    output = await shop.run(["grep", "NoNewPrivs", "/proc/self/status"])
    assert output["stdout"].split() == ["NoNewPrivs:", "1"]
    status = await asyncio.to_thread(Path("/proc/self/status").read_text)
    assert "NoNewPrivs:\t0" in status


async def test_there_is_no_standard_input_and_no_terminal(shop: Shop) -> None:
    """A program that asks for something gets the end of the file, not the owner's terminal."""
    assert (await shop.run(["cat"]))["stdout"] == ""
    output = await shop.run(["sh", "-c", "(: </dev/tty) 2>/dev/null || echo none"])
    assert output["stdout"] == "none\n"


async def test_no_file_of_the_owner_is_open_in_the_program(shop: Shop) -> None:
    """Files and sockets of this process do not reach the program."""
    with (shop.folder / "private").open("w") as file:
        os.set_inheritable(file.fileno(), True)
        output = await shop.run(["ls", "-l", "/proc/self/fd"])
    assert "private" not in output["stdout"]


FAMILIES = {
    "a grandchild that ignores SIGTERM and holds the pipe": (
        f"{IGNORES_TERM} ({IGNORES_TERM} sleep 60) & sleep 60"
    ),
    "a session of its own": "setsid sleep 60 & sleep 60",
    "an orphan in a session of its own": "(setsid sleep 60 >/dev/null 2>&1 &) ; sleep 60",
    "no output any more": "exec >&- 2>&-; sleep 60",
    "stopped": "kill -STOP $$",
    "no environment any more": "env -i sh -c 'sleep 60; :' TAG & sleep 60",
}


@pytest.mark.parametrize("script", FAMILIES.values(), ids=FAMILIES)
async def test_at_the_deadline_all_are_gone(shop: Shop, script: str) -> None:
    """The deadline holds whatever the program does, and nothing that it started is left."""
    began = time.monotonic()
    with pytest.raises(TimeoutError, match="did not end within"):
        await shop.run(["sh", "-c", script], 1.0)
    assert shop.left() == {}
    # Loose, for a busy machine; the program itself would take a minute.
    assert time.monotonic() - began < BOUND


@pytest.mark.parametrize("script", FAMILIES.values(), ids=FAMILIES)
async def test_after_a_cancellation_all_are_gone(shop: Shop, script: str) -> None:
    """Cancellation passes on when nothing of the command is left."""
    task = asyncio.create_task(shop.run(["sh", "-c", script], 5.0))
    await until(shop.left)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert shop.left() == {}


@pytest.mark.parametrize(
    "script",
    [
        "sleep 60 & echo done",
        f"({IGNORES_TERM} sleep 60) & echo done",
        "setsid sleep 60 & sleep 0.2; echo done",
        "(setsid sleep 60 >/dev/null 2>&1 &); sleep 0.2; echo done",
        "env -i sh -c 'sleep 60; :' TAG & sleep 0.2; echo done",
    ],
)
async def test_when_the_program_ends_all_are_gone(shop: Shop, script: str) -> None:
    """What a program leaves in the background ends with it, and holds up nothing."""
    output = await shop.run(["sh", "-c", script])
    assert output["stdout"] == "done\n"
    assert shop.left() == {}


FORKERS = 150 if IS_WHOLE else 30
FORKS = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
born = 0
while born < int(sys.argv[1]):
    if os.fork() == 0:
        while True:
            if os.fork():
                os._exit(0)
            time.sleep(0.02)
    born += 1
time.sleep(60)
"""


async def test_what_forks_all_the_time_is_gone(shop: Shop) -> None:
    """Processes that replace themselves for ever end together: no fork outruns the kill."""
    limit = 2.0 if IS_WHOLE else 0.7  # until then they take all processors
    with pytest.raises(TimeoutError):
        await shop.run(["/usr/bin/env", "python3", "-c", FORKS, str(FORKERS)], limit)
    assert shop.left() == {}


async def test_fifty_at_once(shop: Shop) -> None:
    """Families that refuse to end are gone by one deadline: fifty, at whole effort."""
    script = f"{IGNORES_TERM} ({IGNORES_TERM} sleep 60) & setsid sleep 60 & sleep 60"
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(timed_out(shop, script)) for _ in range(50 if IS_WHOLE else 8)]
    assert all(task.result() for task in tasks)
    assert shop.left() == {}


async def timed_out(shop: Shop, script: str) -> bool:
    with pytest.raises(TimeoutError):
        await shop.run(["sh", "-c", script], 2.0)
    return True


async def test_cancelled_at_every_moment(shop: Shop) -> None:
    """However far a call has come, its cancellation leaves no process, no zombie and no thread."""
    for turn in range(0, 60, 1 if IS_WHOLE else 6):
        task = asyncio.create_task(shop.run(["sh", "-c", "sleep 60 & sleep 60"], 3.0))
        await asyncio.sleep(turn / 4000)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert shop.left() == {}
    assert zombies() == []


async def test_cancelled_twice(shop: Shop) -> None:
    """A second cancellation does not wait for what ignores the first."""
    task = asyncio.create_task(shop.run(["sh", "-c", f"{IGNORES_TERM} sleep 60"], BOUND))
    await until(shop.left)
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert shop.left() == {}


def zombies() -> list[str]:
    """Children of this process that nobody has reaped."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            with contextlib.suppress(OSError):
                state, parent = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
                if state == "Z" and parent == str(os.getpid()):
                    found.append(folder.name)
    return found


FLOODS = {
    "yes": ["yes"],
    "one line": ["cat", "/dev/zero"],
    "on both streams": ["sh", "-c", "yes >&2 & yes"],
}


@pytest.mark.parametrize("argv", FLOODS.values(), ids=FLOODS)
async def test_a_flood_of_output(shop: Shop, argv: list[str]) -> None:
    """Endless output ends the program; what is kept of it stays small, and the loop runs on."""
    with pytest.raises(ToolExecutionError, match="wrote more than 64 MiB") as caught:
        await shop.run(argv)
    assert caught.value.details["truncated"] is True
    assert len(str(caught.value.details)) < 300_000


async def test_a_gigabyte(shop: Shop) -> None:
    """A gigabyte is not read to its end."""
    with pytest.raises(ToolExecutionError, match=f"{MAX_FLOOD // 2**20} MiB"):
        await shop.run(["head", "-c", "1G", "/dev/zero"])


async def test_from_any_thread_and_loop(shop: Shop) -> None:
    """No child watcher is needed: a loop in another thread runs commands as well."""
    outputs: list[Any] = []

    def work() -> None:
        outputs.append(asyncio.run(shop.run(["echo", "a"])))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        await asyncio.to_thread(thread.join, BOUND)
    assert [output["stdout"] for output in outputs] == ["a\n"] * 4


def test_a_loop_that_is_closed_early(shop: Shop) -> None:
    """A loop that somebody stops and throws away takes its commands with it."""
    before = set(threading.enumerate())
    loop = asyncio.new_event_loop()
    task = loop.create_task(shop.run(["sh", "-c", f"{IGNORES_TERM} sleep 60 & sleep 60"], 900.0))
    loop.run_until_complete(until(shop.left))
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()
    task.get_coro().close()  # what the collector does at the end
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    del task
    gc.collect()
    for thread in set(threading.enumerate()) - before:
        thread.join(BOUND)
    assert shop.left() == {}


TOOL = """
name: attacked
description: Runs a shell script that stays.
category: custom
timeout: 1
parameters: []
entry:
  type: builtin
  handler: run_command
  argv: [sh, -c, "trap '' TERM; (trap '' TERM; sleep 60) & sleep 60"]
  config: {env: {TEST_TAG: TAG}}
"""


@pytest.fixture
async def engine(shop: Shop) -> AsyncIterator[ToolEngine]:
    (shop.folder / "attacked.yaml").write_text(TOOL.replace("TAG", shop.tag))
    config = ToolEngineConfig(tools_directory=str(shop.folder), auto_reload=False)
    async with ToolEngine(config) as engine:
        assert engine.load_errors == []
        yield engine


async def test_the_engines_deadline_leaves_nothing(engine: ToolEngine, shop: Shop) -> None:
    """Promise 4: the result comes by the deadline, and child processes are gone by then."""
    async with asyncio.timeout(BOUND):
        results = await asyncio.gather(*(engine.execute("attacked", {}) for _ in range(10)))
    assert {result.error_type for result in results} == {"timeout"}
    assert shop.left() == {}


async def test_closing_the_engine_leaves_nothing(shop: Shop, engine: ToolEngine) -> None:
    """An engine that closes takes its commands with it."""
    task = asyncio.create_task(engine.execute("attacked", {}))
    await until(shop.left)
    await engine.close()
    result = await task
    assert not result.is_success
    await until(lambda: not shop.left())


@pytest.mark.beats
async def test_the_heart_beats_on(shop: Shop) -> None:
    """Floods and dying families block the event loop for no noticeable time."""

    async def attack() -> None:
        for argv in FLOODS.values():
            with pytest.raises(ToolExecutionError):
                await shop.run(argv)
        with pytest.raises(TimeoutError):
            await shop.run(["sh", "-c", "sleep 60 & sleep 60"], 0.5)

    await assert_beats_on(attack)
