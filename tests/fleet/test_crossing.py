"""What crosses between an engine and its workers, and by which way: no pickle, large results apart?

Seen from outside: what Python's own unpickling is given in both processes, and what the object
stores of the nodes say that they have kept.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.fleet.samples import BOUND, Bench, fleet_engine
from tests.ray_cluster import RayCluster
from tool_engine.executors.fleet import driver_process

pytestmark = [pytest.mark.ray, pytest.mark.asyncio(loop_scope="package")]
SENT, RETURNED = "sent-by-the-engine", "sent-by-the-engine," * 2
NOTE = """
import os, pickle
def _note_loads(data, *words, _loads=pickle.loads, **ways):
    with open(f"FOLDER/{os.getpid()}", "ab") as file: file.write(bytes(data))
    return _loads(data, *words, **ways)
pickle.loads = _note_loads
open(f"FOLDER/{os.getpid()}", "ab").close()
"""
"""Before Ray is imported, which takes this function for its own."""
CROSSING = """
class Taken:
    def __reduce__(self): return (open, (PATH, "w"))
def give(text):
    way, _, text = text.partition(" ")
    if way == "odd": return Taken()
    if way != "fail": return (text + ",") * int(way)
    error = ValueError(text)
    error.value = Taken()
    raise error
"""


def _read_noted(folder: Path) -> list[bytes]:
    return [file.read_bytes() for file in folder.iterdir()]


async def test_no_pickle_of_ours_or_of_a_tool(
    handlers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Promise 6: arguments, results, errors and code cross as JSON and a hash; the pickle that
    Ray makes of a worker's class has no more of ours than names.
    """
    noted = {name: tmp_path / name for name in ("driver", "worker", "hooks")}
    for each in noted.values():
        each.mkdir()
    notes = {name: NOTE.replace("FOLDER", str(folder)) for name, folder in noted.items()}
    (noted["hooks"] / "sitecustomize.py").write_text(notes["worker"])
    start = driver_process._START
    monkeypatch.setattr(driver_process, "_START", f"exec({notes['driver']!r}); {start}")
    made = tmp_path / "made-by-a-pickle"
    code = f"PATH = {str(made)!r}\n{CROSSING}"
    (handlers / "crossing_of_fleets.py").write_text(code)
    runtime = {"env_vars": {"PYTHONPATH": str(noted["hooks"])}}
    async with asyncio.timeout(2 * BOUND), fleet_engine(handlers) as bench:
        bench.add_tool("crossing_of_fleets:give", "give", runtime=runtime, max_workers=1)
        assert (await bench.call("give", f"2 {SENT}")).output == {"result": RETURNED}
        assert len((await bench.call("give", f"100000 {SENT}")).output["result"]) > 2**20
        assert "has no form in JSON" in str((await bench.call("give", f"odd {SENT}")).error)
        assert SENT in str((await bench.call("give", f"fail {SENT}")).error)
        driver = await asyncio.to_thread(_read_noted, noted["driver"])
        workers = await asyncio.to_thread(_read_noted, noted["worker"])
    assert len(driver) == 1, "the hook is in the driver"
    assert any(b"FleetActor" in each for each in workers), "and in the workers"
    for pickled in (*driver, *workers):
        assert SENT.encode() not in pickled
        assert b"crossing_of_fleets" not in pickled
        assert b"call_soon_threadsafe" not in pickled, "the names of our methods, no code of them"
    assert not made.exists()


async def test_large_results_go_through_the_object_store(
    shared_bench: Bench, ray_cluster: RayCluster
) -> None:
    """Promise 6: those over 1 MiB, and no others of these, are objects of a node's store."""
    shared_bench.add_tool("large", "stored", max_workers=1)
    assert (await shared_bench.call("stored", "")).is_success

    async def call_stored(text: str) -> int:
        """How many bytes the stores have taken in for a call."""
        before = (await asyncio.to_thread(ray_cluster.ask, do="stored"))["bytes"]
        assert (await shared_bench.call("stored", text)).is_success
        after = (await asyncio.to_thread(ray_cluster.ask, do="stored"))["bytes"]
        return int(after - before)

    assert await call_stored("") == 0
    size = int(1.5 * 2**20)
    # In that of the worker's node and, if that is another one, of the driver's.
    assert size <= await call_stored("x") < 2 * (size + 2**16)
