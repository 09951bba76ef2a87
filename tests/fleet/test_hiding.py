"""Are secrets hidden, and results cut, in all that is shown of a call on a fleet?"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.contracts.secret_world import KINDS, SecretWorld
from tests.effort import IS_WHOLE
from tests.fleet.samples import BOUND, Bench, define_tool
from tests.ray_cluster import RayCluster
from tool_engine import ToolExecutionResult
from tool_engine.session.session import ToolSession

pytestmark = [pytest.mark.ray, pytest.mark.asyncio(loop_scope="package")]
PAYING = """
import asyncio, os
from tool_engine.errors import ToolExecutionError
def pay(pin="", login=None, fallback="", note="", context=None):
    word = pin or (login or {}).get("word") or note.removeprefix("for ")
    if not word or word == "n": word = fallback
    way = os.environ["WAY"]
    if way == "tell":
        context.report_progress(1, 2, f"at {word}")
        for number in range(300): context.log(f"{number} with {word}")
        print(f"with {word}", flush=True)
        return [word]
    if way == "fail":
        try: raise KeyError(word)
        except KeyError as cause: raise ValueError(f"no {word}; {'x' * 150} {word}") from cause
    if way == "details": raise ToolExecutionError(f"no {word}", details={"it": [word], word: word})
    if way == "trace":
        exec(compile("raise kind", f"/{word}/a.py", "exec"), {"kind": type(word, (Exception,), {})})
    if way == "key": return {word.encode(): 1}
    if way == "time": raise TimeoutError(f"no answer to {word}")
    if way == "exit": raise SystemExit(word)
    if way == "die":
        print(f"the last word is {word}", flush=True)
        os._exit(3)
async def pay_later(pin="", login=None, fallback="", note="", context=None):
    return pay(pin, login, fallback, note, context)
"""
WAYS = ("tell", "fail", "details", "trace", "key", "time", "exit", "die")
TRIED: dict[str, tuple[str, ...]] = dict.fromkeys(KINDS, WAYS)
"""The ways of each kind of secret; each takes a worker of its own."""
if not IS_WHOLE:
    TRIED = {
        "parameter": ("tell", "fail", "details", "key", "exit"),
        "engine": ("tell", "fail", "trace", "time", "die"),
    }
MANY = [f"order {number}" for number in range(250)]


@pytest.mark.parametrize("kind", TRIED)
async def test_no_secret_is_shown(kind: str, handlers: Path, ray_cluster: RayCluster) -> None:
    """Whatever a handler does with it: no error, trace, line, progress, event, record, or file of
    Ray's has it.
    """
    (handlers / "paying_for_fleets.py").write_text(PAYING)
    world = SecretWorld(kind, config={"fleet": "auto", "close_timeout": 0.1})

    def note(progress: Any) -> None:
        world.said.append(repr(progress))

    async def call(way: str, handler: str) -> ToolExecutionResult:
        config = {
            "isolation": "ray",
            "resources": {"cpus": 0},
            "runtime": {"env_vars": {"WAY": way}},
        }
        place = f"paying_for_fleets:{handler}"
        entry = {"type": "custom", "handler": place, "config": config}
        world.define(has_handler=False, entry=entry, name=way, timeout=BOUND)
        running = asyncio.create_task(world.engine.execute(way, world.arguments, on_progress=note))
        while not running.done():
            world.said += [
                str(world.engine.controller.explain(each.call_id))
                for each in await world.engine.calls.list()
            ]
            await asyncio.sleep(0.01)
        result = await running
        if not result.is_success:  # what a tool returns is for its caller
            world.keep(result)
        return result

    async with asyncio.timeout(3 * BOUND), world.engine:
        with world.listening():
            for way in TRIED[kind]:
                result = await call(way, "pay_later" if way in WAYS[:4] else "pay")
                assert result.is_success is (way == "tell"), result.error
                # Where it never came so far, the handler says nothing else.
                is_told = kind == "parameter" and way == "tell"
                world.got.append({"it": result.output if is_told else world.canary})
            await world.check("fleet_handler_failed", has_run=True)
    files = await asyncio.to_thread(find_files, ray_cluster.folder, world.canary)
    assert files == []
    heard = [each for each in world.events if each.event_type.value == "execution_logged"]
    assert len(heard) > 100


def find_files(folder: Path, word: str) -> list[Path]:
    """The files with a word in them: what Ray logs, and what its workers print."""
    files = [each for each in folder.rglob("*") if each.is_file() and not each.is_symlink()]
    assert any(each.suffix == ".log" for each in files)
    return [each for each in files if word.encode() in each.read_bytes()]


async def test_results_are_cut_as_here(shared_bench: Bench, handlers: Path) -> None:
    """What the definition says of its length holds before it is shown; the record has the whole."""
    engine = shared_bench.engine
    (handlers / "many_for_fleets.py").write_text(f"def many(text): return {MANY!r}\n")
    limits = {"result": {"max_items": 4, "max_chars": 200}}
    far = define_tool("many", "many_for_fleets:many") | limits
    engine.register_tool(far)
    near = {key: value for key, value in far.items() if key != "entry"} | {"name": "near"}

    async def list_here(text: str) -> list[str]:
        return MANY

    engine.register_tool(near, list_here)
    session = ToolSession(engine, "chat")
    shown = []
    for name in ("many", "near"):
        result = await session.execute(name, {"text": ""})
        assert result.output["result"] == [*MANY[:2], *MANY[-2:]]
        (record,) = await engine.query_call_records(tool_name=name)
        assert record.result == {"result": MANY}
        words = str(result.formatted_text).replace(str(result.call_id), "ID").replace(name, "NAME")
        shown.append(words)
    assert shown[0] == shown[1]
    assert len(shown[0]) < 400
