"""`call` and `batch` run real tools and tell how they ended."""

import asyncio
import contextlib
import gc
import io
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests import warm
from tests.cli.talking import ASKS, at_terminal
from tool_engine.catalog.definition.building import tool_of_mapping
from tool_engine.cli import signals
from tool_engine.cli.calls.call_command import _explain_null, print_result
from tool_engine.cli.failures import CommandError
from tool_engine.cli.signals import run_async
from tool_engine.cli.tables import result_text
from tool_engine.model.call import ToolExecutionResult
from tool_engine.model.content.blocks import lay_out
from tool_engine.model.content.pieces import ImageContent

SLOW = """
name: slow
description: Waits for an answer that never comes.
category: http
parameters:
  - {{name: path, type: string, required: true, description: x}}
entry:
  type: http
  request: {{url: "http://127.0.0.1:{port}/{{path}}"}}
  allow: ["127.0.0.1:*"]
"""


@contextmanager
def silent_server() -> Iterator[tuple[int, Any]]:
    """A port that accepts connections and never answers; with a wait for the first one."""
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(20)
        yield server.getsockname()[1], server.accept


def write_slow(tools: Path, port: int) -> None:
    (tools / "slow.yaml").write_text(SLOW.format(port=port).lstrip(), encoding="utf-8")


def test_a_workflow_that_cannot_run_is_one_sentence(
    command: Callable[..., Any], tools: Path
) -> None:
    """Who calls another tool is told that there is one, without a line of the log."""
    steps = "entry: {type: workflow, steps: [{id: a, tool: gone, params: {}}]}"
    text = f"name: flow\ndescription: Calls a tool that is not there.\n{steps}\n"
    (tools / "flow.yaml").write_text(text, encoding="utf-8")
    ended = command("call", "echo", "message=a")
    said = "1 workflow with a tool that is not there, or does not fit"
    assert (ended.code, ended.err) == (0, f"{said}; see tool-engine validate {tools}\n")
    assert "there is no tool 'gone'" in command("validate").out
    refused = command("call", "flow")
    assert (refused.code, "there is no tool 'gone'" in refused.out) == (1, True)


def test_the_place_of_an_exception(command: Callable[..., Any], tools: Path) -> None:
    """Who calls a tool of their own reads the line that raised, which no model is told."""
    (tools / "div.py").write_text("def run():\n    return {'x': 1 / 0}\n", encoding="utf-8")
    text = "name: div\ndescription: Divides.\nentry: {type: python, handler: 'div:run'}\n"
    (tools / "div.yaml").write_text(text, encoding="utf-8")
    ended = command("--path", str(tools), "call", "div")
    said = (
        f"execution_error: ZeroDivisionError: division by zero\nraised at {tools.name}/div.py:2\n"
    )
    assert (ended.code, ended.out) == (1, said)


def test_the_place_of_a_denial(command: Callable[..., Any], tools: Path) -> None:
    """Who calls a tool that no one may call reads which file says so."""
    text = "name: no\ndescription: Echoes.\nentry: {type: builtin, handler: echo}\n"
    (tools / "no.yaml").write_text(f"{text}permission: deny\n", encoding="utf-8")
    ended = command("call", "no")
    assert "calls of 'no' are not allowed here" in ended.out
    assert f"{tools / 'no.yaml'}: permission: deny; write another one there" in ended.out


def write_python_tool(tools: Path, name: str, code: str) -> None:
    """A tool of a module beside it, without parameters."""
    (tools / f"{name}.py").write_text(code, encoding="utf-8")
    (tools / f"{name}.yaml").write_text(
        f"name: {name}\ndescription: Says something.\neffect: read\n"
        f"tests: [{{name: runs, params: {{}}, expect: {{result: ok}}}}]\n"
        f'entry: {{type: python, handler: "{name}:run"}}\n',
        encoding="utf-8",
    )


def test_what_a_tool_prints_is_in_no_document(
    command: Callable[..., Any], tools: Path, tmp_path: Path
) -> None:
    """Standard output has the JSON alone, and the prints are not lost; without it they stay."""
    write_python_tool(
        tools, "loud", 'print("loads")\ndef run():\n    print("debug")\n    return "ok"\n'
    )
    batch = tmp_path / "calls.json"
    batch.write_text('[{"tool": "loud", "params": {}}]', encoding="utf-8")
    for words in (("call", "loud"), ("batch", str(batch)), ("test", "loud")):
        ended = command("--path", str(tools), *words, "--json")
        assert ended.code == 0, words
        assert ended.json, words
        assert "debug\n" in ended.err, words
    assert command("--path", str(tools), "call", "loud").out.startswith("debug\n")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("result: {select: nix}", "result.select 'nix' finds nothing; to see all that there is"),
        ("result: {select: message}", ""),
    ],
)
def test_an_expression_that_finds_nothing(
    command: Callable[..., Any], tools: Path, more: str, said: str
) -> None:
    """A misspelt key finds null, and no error: its author is asked to look."""
    text = (tools / "echo.yaml").read_text()
    (tools / "said.yaml").write_text(f"{text.replace('echo', 'said', 1)}\n{more}\n")
    ended = command("call", "said", "message=hi")
    assert (ended.code, said in ended.err, "finds nothing" in ended.err) == (0, True, bool(said))


def test_a_response_that_finds_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """Both forms of `entry.response` are named as they are written."""
    for response, words in (
        (
            "itmes[0]",
            "entry.response 'itmes[0]' finds nothing; to see all that there is write resp",
        ),
        ({"select": "itmes"}, "entry.response.select 'itmes' finds nothing"),
        ({"pages": {"next": "link"}}, ""),
    ):
        entry = {"type": "http", "request": {"url": "http://a.b"}, "response": response}
        tool = tool_of_mapping({"name": "t", "description": "d", "entry": entry}, "t.yaml")
        _explain_null(tool)
        err = capsys.readouterr().err
        assert (words in err, bool(err)) == (True, bool(words))


def test_numbers_that_json_has_not(command: Callable[..., Any], tools: Path) -> None:
    """They are words, as in a record: `null` was printed for each."""
    write_python_tool(tools, "odd", 'def run():\n    return [float("nan"), float("inf")]\n')
    call = ("--path", str(tools), "call", "odd")
    assert '"NaN"' in command(*call).out
    assert command(*call, "--json").json["output"] == {"result": ["NaN", "Infinity"]}


def test_a_fault_that_only_running_shows_is_printed(
    command: Callable[..., Any], tools: Path
) -> None:
    """`validate` imports nothing: what it does not show is not left to it."""
    write_python_tool(tools, "lame", "import no_such_module\ndef run(): ...\n")
    (tools / "broken.yaml").write_text("name: broken\n", encoding="utf-8")
    assert "1 invalid" in command("--path", str(tools), "validate").out
    for words in (("call", "echo", "message=a"), ("test",)):
        said = command("--path", str(tools), *words).err
        assert f"1 file could not be loaded; see tool-engine validate {tools}\n" in said, words
        assert f"{tools / 'lame.yaml'}:5:" in said, words
        assert "No module named 'no_such_module'; install what it imports" in said, words


def test_a_broken_file_is_one_sentence(command: Callable[..., Any], tools: Path) -> None:
    """Other tools are called as ever; a call of the broken one says what is wrong with it."""
    broken = "\n".join(["name: y", "tgas: 5", *(f"k{n}: 1" for n in range(30))])
    (tools / "broken.yaml").write_text(broken, encoding="utf-8")
    sentence = f"1 file could not be loaded; see tool-engine validate {tools}\n"
    for words in (
        ("call", "echo", "message=a"),
        ("search", "echo"),
        ("prompt", "-p", "vcp", "echo"),
        ("convert", "echo", "--to", "openai"),
    ):
        ended = command(*words)
        assert (ended.code, ended.err) == (0, sentence), words
    for words in (("call", "y"), ("show", "y"), ("test", "y"), ("lint", "y")):
        ended = command(*words)
        assert ended.code == 2
        why = f"error: the tool 'y' could not be loaded: {tools / 'broken.yaml'}:1:1: the key"
        assert why in ended.err, words
        assert "more; see tool-engine validate" in ended.err
        assert len(ended.err) < 600


def test_a_call_imports_only_what_its_tool_needs(tools: Path) -> None:
    """An HTTP tool in the folder costs the call of another one nothing."""
    code = (
        "import sys; from tool_engine.cli.app import run; code = run(sys.argv[1:]); "
        "print('aiohttp' in sys.modules, code)"
    )
    for words, last in (
        (("call", "calculator", "expression=1+1"), "False 0"),
        (("call", "fetch", "url=x"), "True 1"),
    ):
        ended = subprocess.run(
            [sys.executable, "-c", code, "--tools", str(tools), "--records", "none", *words],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert ended.stdout.splitlines()[-1] == last, ended


@pytest.mark.parametrize(
    "words", [("--message", "hi", "--times", "2"), ('{"message": "hi", "times": 2}',)]
)
def test_call_takes_options_and_an_object(
    command: Callable[..., Any], words: tuple[str, ...]
) -> None:
    """`--key value` and one JSON object work beside `key=value`, before and after `--json`."""
    for line in (("--json", *words), (*words, "--json")):
        assert command("call", "echo", *line).json["output"] == {"message": "hi", "times": 2}


def test_call_prints_the_output(command: Callable[..., Any]) -> None:
    """Exit code 0, the output as JSON for people, defaults filled in."""
    ended = command("call", "echo", "message=hello [bold]")
    assert (ended.code, ended.err) == (0, "")
    assert ended.json == {"message": "hello [bold]", "times": 1}


def test_text_is_printed_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    """A tool that returned a text prints it without quotes, and without steering the terminal."""
    print_result(ToolExecutionResult(True, "x", {"result": "one [b]\ntwo \x1b[31m"}))
    assert capsys.readouterr().out == "one [b]\ntwo \\x1b[31m\n"


def test_bytes_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    """A megabyte of base64 is nothing to read; what stands beside it is."""
    output = lay_out(["A map:", ImageContent(bytes(1_000_000), "image/png")])
    result = ToolExecutionResult(True, "x", {**output, "structuredContent": {"scale": 5}})
    print_result(result)
    assert capsys.readouterr().out == 'A map:\n[image/png, 1.0 MB]\n{"scale": 5}\n'
    assert result_text(result) == 'A map:\n[image/png, 1.0 MB]\n{"scale": 5}'


def test_call_json_is_the_result(command: Callable[..., Any]) -> None:
    """`--json` prints `result.to_dict()` and nothing else."""
    ended = command("call", "calculator", "expression=(1 + 2) * 14", "--json")
    assert (ended.code, ended.err) == (0, "")
    assert ended.json["is_success"] is True
    assert ended.json["output"] == {"result": 42}
    assert ended.json["metadata"]["tool_version"] == "1.0.0"


def test_a_failed_call_is_exit_code_1_with_its_findings(command: Callable[..., Any]) -> None:
    """A refused argument is shown with its findings, in both forms."""
    ended = command("call", "echo", "times=9", "mesage=x")
    assert ended.code == 1
    text = " ".join(ended.out.split())
    assert "missing_required" in text
    assert "constraint_violation" in text
    assert "validation_error" in text
    as_json = command("call", "echo", "times=9", "--json")
    assert as_json.code == 1
    assert {each["path"] for each in as_json.json["validation_errors"]} == {"message", "times"}


@pytest.mark.parametrize(
    ("words", "times"),
    [
        (("mesage=x",), 1),
        (("message=x", "times=9"), 1),
        (("mesage=x", "other=y"), 2),
        (("message=x", "times=9", "other=y"), 2),
    ],
)
def test_one_mistake_is_said_once(
    command: Callable[..., Any], words: tuple[str, ...], times: int
) -> None:
    """In the line of the error; a table has what is not in it, as a second name."""
    ended = command("call", "echo", *words)
    assert ended.code == 1
    message = ended.out.splitlines()[-1].removeprefix("validation_error: invalid arguments: ")
    assert ended.out.count(message) == 1
    assert ("other" in ended.out) is (times == 2)
    assert len(ended.out.splitlines()) == (1 if times == 1 else 4)


def test_a_warning_is_shown_beside_the_output(command: Callable[..., Any]) -> None:
    """An unknown parameter that was kept out is told even when the call succeeds."""
    ended = command("call", "echo", "message=x", "tims=2")
    assert ended.code == 0
    assert "warning" in ended.out
    assert "extra_parameter" in ended.out


def test_params_come_from_a_file_and_words_win(
    command: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--params` takes a file or stdin; a word on the command line replaces its value."""
    path = tmp_path / "params.json"
    path.write_text('{"message": "from file", "times": 2}', encoding="utf-8")
    assert command("call", "echo", "--params", str(path)).json["message"] == "from file"
    ended = command("call", "echo", "message=word", "--params", str(path))
    assert ended.json == {"message": "word", "times": 2}
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"message: yaml\n")))
    assert command("call", "echo", "--params", "-").json["message"] == "yaml"


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("ecko",), "did you mean 'echo'?"),
        (("echo", "hello"), "key=value"),
        (("echo", "times=two"), "'times' is an integer"),
        (("echo", "--params", "nowhere.json"), "cannot read nowhere.json"),
        (("echo", "message=x", "--timeout", "-1"), "positive"),
    ],
)
def test_a_mistake_is_a_message(
    command: Callable[..., Any], words: tuple[str, ...], part: str
) -> None:
    """Exit code 2, one message with the cure, as text or as JSON, no traceback."""
    ended = command("call", *words)
    assert (ended.code, ended.out) == (2, "")
    assert part in ended.err
    assert "Traceback" not in ended.err
    as_json = command("call", *words, "--json")
    assert (as_json.code, as_json.err) == (2, "")
    assert part in as_json.json["error"]["message"]


def test_the_timeout_is_the_calls(command: Callable[..., Any], tools: Path) -> None:
    """`--timeout` ends a call that does not answer, as a result."""
    with silent_server() as (port, _):
        write_slow(tools, port)
        ended = command("call", "slow", "path=x", "--timeout", "0.2", "--json")
    assert ended.code == 1
    assert ended.json["error_type"] == "timeout"


@pytest.mark.parametrize("words", [("--json",), ()])
def test_ctrl_c_cancels_the_call(tools: Path, words: tuple[str, ...]) -> None:
    """Exit code 130, the call is cancelled, nobody sees a traceback."""
    with silent_server() as (port, wait_for_call):
        write_slow(tools, port)
        process = warm.Program(
            ["-m", "tool_engine.cli", "call", "slow", "path=x", *words],
            env={**os.environ, "TOOL_ENGINE_TOOLS": str(tools)},
        )
        connection, _ = wait_for_call()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
        connection.close()
    assert process.returncode == 130
    assert b"Traceback" not in err
    if words:
        assert json.loads(out)["error"]["type"] == "interrupted"
    else:
        assert b"interrupted" in err


def interrupt_soon(when: Callable[[], Any]) -> threading.Thread:
    """Presses Ctrl-C once `when` returns."""

    def press() -> None:
        when()
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=press)
    thread.start()
    return thread


def test_ctrl_c_in_this_process(command: Callable[..., Any], tools: Path) -> None:
    """The same as seen from inside: the interrupt becomes the exit code."""
    with silent_server() as (port, wait_for_call):
        write_slow(tools, port)
        calls: list[Any] = []
        thread = interrupt_soon(lambda: calls.append(wait_for_call()))
        ended = command("call", "slow", "path=x")
        thread.join(20)
        calls[0][0].close()
    assert ended.code == 130
    assert "cancelled" in ended.err
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_second_ctrl_c_waits_for_nothing() -> None:
    """A command that does not end when it is cancelled ends at the second Ctrl-C."""
    begun, cancelled = threading.Event(), threading.Event()

    async def stubborn() -> int:
        try:
            begun.set()
            await asyncio.sleep(20)
        except asyncio.CancelledError:
            cancelled.set()
            await asyncio.sleep(20)
        return 0

    threads = [interrupt_soon(lambda: begun.wait(20)), interrupt_soon(lambda: cancelled.wait(20))]
    with pytest.raises(CommandError, match="interrupted"):
        run_async(stubborn())
    for thread in threads:
        thread.join(20)


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_is_told_once(
    second: signal.Signals, caplog: pytest.LogCaptureFixture
) -> None:
    """What was begun before it ends then, without a word but the one about the first signal."""

    async def slow() -> int:
        try:
            signal.raise_signal(signal.SIGTERM)
            await asyncio.sleep(20)
        except asyncio.CancelledError:
            signal.raise_signal(second)
            await asyncio.sleep(20)
        return 0

    with pytest.raises(CommandError, match="by SIGTERM") as ended:
        run_async(slow())
    assert ended.value.exit_code == 143
    # It holds what is told only when it goes.
    del ended
    gc.collect()
    assert caplog.records == []


def test_what_never_ends_is_left_behind(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """After a second signal even that ends which takes no cancelling, as a thread does."""
    monkeypatch.setattr(signals, "_PATIENCE", 0.01)

    waited: list[int] = []

    async def endless() -> int:
        for number in range(3):
            with contextlib.suppress(asyncio.CancelledError):
                if number < 2:
                    signal.raise_signal(signal.SIGTERM)
                await asyncio.sleep(2)
                waited.append(number)
        return 0

    with pytest.raises(CommandError, match="by SIGTERM") as ended:
        run_async(endless())
    del ended
    gc.collect()
    assert (waited, caplog.records) == ([], [])


def test_what_takes_no_cancelling_keeps_no_command_from_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A tool that goes on in the loop is left behind a second after its command has ended."""
    monkeypatch.setattr(signals, "_PATIENCE", 0.01)
    left: list[asyncio.Task[None]] = []

    async def go_on() -> None:
        while len(left) < 3:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(60)

    async def leave() -> int:
        left.append(asyncio.create_task(go_on()))
        await asyncio.sleep(0)
        return 3

    assert run_async(leave()) == 3
    left[0].get_coro().close()


def test_a_cancel_of_its_own_is_no_ctrl_c() -> None:
    """Only the signal is taken for one."""

    async def gives_up() -> int:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        run_async(gives_up())


def test_in_another_thread() -> None:
    """Where no signal can be handled, a command runs all the same."""

    async def answer() -> int:
        return 7

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(lambda: run_async(answer())).result(20) == 7


def asking(folder: Path) -> None:
    """Puts a tool that asks into the folder `tools`."""
    text = "name: tell\ndescription: d\nentry: {type: builtin, handler: echo}\n"
    parameter = "parameters: [{name: message, type: string, description: d}]\n"
    (folder / "tools").mkdir(exist_ok=True)
    (folder / "tools" / "tell.yaml").write_text(
        f"{text}{parameter}permission: ask_always\n", encoding="utf-8"
    )


@pytest.mark.parametrize(("typed", "code"), [("y", 0), ("n", 1)])
def test_somebody_at_the_terminal_is_asked(tmp_path: Path, typed: str, code: int) -> None:
    """X3: whoever calls a tool that asks is who is asked."""
    asking(tmp_path)
    with at_terminal(tmp_path, "tell", "message=hello", command="call") as screen:
        assert 'message: "hello"' in screen.shows(ASKS)
        screen.type(f"{typed}\n")
        assert screen.ends() == code
    assert ("execution_rejected" in screen.whole) is (typed == "n")


@pytest.mark.parametrize("words", [("call", "tell"), ("batch", "calls.jsonl")])
def test_nobody_at_a_terminal(
    command: Callable[..., Any],
    tools: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
) -> None:
    """X3: in a pipe nobody consents, so nothing runs, and the error says what to do."""
    asking(tools.parent)
    monkeypatch.chdir(tools.parent)
    Path("calls.jsonl").write_text('{"tool": "tell"}\n', encoding="utf-8")
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    ended = command(*words)
    assert ended.code == 1
    assert "run it in a terminal" in " ".join(ended.out.split())


def test_another_system(tools: Path) -> None:
    """Without what only some systems have, a call that asks nobody works as ever."""
    program = (
        "import signal, sys; sys.modules['termios'] = None; del signal.SIGHUP; "
        "from tool_engine.cli.app import run; sys.exit(run(['call', 'echo', 'message=hello']))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "TOOL_ENGINE_TOOLS": str(tools)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "hello" in ended.stdout
