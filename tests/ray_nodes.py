"""The nodes of a real Ray, for tests and benchmarks: in processes of their own, none left.

What starts them never imports Ray: a process beside it starts the nodes and does what it is asked.
Each cluster has a folder of its own with a short name, for else all clusters of a machine share one
file with an address.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

__all__ = [
    "AS_OTHERS",
    "MEMORY",
    "RayCluster",
    "is_alive",
    "read_command",
    "start_cluster",
    "tree_of",
]

STARTS = 3
END_LIMIT = 30.0
MEMORY = 80 * 2**20
"""Bytes for the objects of a node."""
AS_OTHERS = {"RAY_worker_niceness": "0"}
"""Ray's workers get what all others leave of a processor: beside other tests, next to nothing."""


class ClusterError(Exception):
    """The process of a cluster has ended."""


class RayCluster:
    """The nodes of a cluster, and what can be done to them. All of it blocks."""

    def __init__(self, folder: Path, nodes: int) -> None:
        self.folder = folder
        self._noted: set[int] = set()
        self._spare = 0
        self._has_head = True
        environment = {
            **os.environ,
            "RAY_TMPDIR": str(folder),
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_DISABLE_IMPORT_WARNING": "1",
            **AS_OTHERS,
        }
        environment.pop("RAY_ADDRESS", None)
        self._words = (folder / "words").open("w+")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.ray_nodes", str(nodes)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._words,
            env=environment,
            text=True,
        )
        try:
            self.address = str(self._hear()["address"])
        except ClusterError:
            self.close()
            raise

    def ask(self, **order: Any) -> dict[str, Any]:
        """What the process of the cluster answers to an order."""
        assert self.process.stdin is not None
        print(json.dumps(order), file=self.process.stdin, flush=True)
        return self._hear()

    def add_node(self, **resources: float) -> int:
        """The raylet's process id of a new node with one processor, and these resources."""
        return int(self.ask(do="add", resources=resources)["pid"])

    def find_spare_node(self) -> int:
        """The raylet's process id of a node with the resource `spare`, which tests may remove."""
        if not self._spare:
            self._spare = self.add_node(spare=1.0)
        return self._spare

    def remove_node(self, pid: int = 0) -> None:
        """Kills Ray's processes of a node, workers too, as when its power is cut; 0: the head's."""
        self._has_head = self._has_head and bool(pid)
        if pid == self._spare:
            self._spare = 0
        self.ask(do="remove", pid=pid)

    def list_processes(self) -> set[int]:
        """All processes of the cluster, those that have been among them."""
        self._noted |= tree_of(self.process.pid)
        return {pid for pid in self._noted if is_alive(pid)}

    def close(self) -> None:
        """Ends all nodes. Raises `AssertionError` if a process is left."""
        self.list_processes()
        with contextlib.suppress(BrokenPipeError):
            self.process.communicate(timeout=END_LIMIT)
        # An agent of Ray's outlives a head that was killed.
        until = time.monotonic() + (END_LIMIT if self._has_head else 0.0)
        while (left := self.list_processes()) and time.monotonic() < until:
            time.sleep(0.05)
        names = {pid: read_command(pid) for pid in left}
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._words.close()
        shutil.rmtree(self.folder, ignore_errors=True)
        assert not left or not self._has_head, f"processes left behind: {names}"

    def _hear(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        self._noted |= tree_of(self.process.pid)
        if not line:
            self._words.seek(0)
            raise ClusterError(f"the cluster has ended: {self._words.read()[-2000:]}")
        found: dict[str, Any] = json.loads(line)
        return found


def read_command(pid: int) -> str:
    """The command line of a process, as far as it goes on."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")[:200]
    return ""


def children_of(pid: int) -> list[int]:
    """The processes that are directly below one."""
    return _list_children().get(pid, [])


def _list_children() -> dict[int, list[int]]:
    children: dict[int, list[int]] = {}
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError):
            words = (place / "stat").read_text().rpartition(")")[2].split()
            children.setdefault(int(words[1]), []).append(int(place.name))
    return children


def tree_of(root: int) -> set[int]:
    """A process and all below it."""
    children = _list_children()
    found, todo = set(), [root]
    while todo:
        found.add(pid := todo.pop())
        todo += children.get(pid, [])
    return found


def is_alive(pid: int) -> bool:
    """Whether a process runs, and is no zombie."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


def start_cluster(nodes: int) -> RayCluster:
    """A cluster that has started: Ray gives a node 30 s, which may be short on a busy machine."""
    for _ in range(STARTS - 1):
        with contextlib.suppress(ClusterError):
            return RayCluster(Path(tempfile.mkdtemp(prefix="te-", dir="/tmp")), nodes)
    return RayCluster(Path(tempfile.mkdtemp(prefix="te-", dir="/tmp")), nodes)


def main(count: int) -> None:
    """Start nodes, and do what the standard input says until it ends."""
    from ray._private.internal_api import get_memory_info_reply, get_state_from_address
    from ray.cluster_utils import Cluster

    output, sys.stdout = sys.stdout, sys.stderr
    common: dict[str, Any] = {"num_cpus": 1, "object_store_memory": MEMORY}
    cluster: Any = Cluster(
        initialize_head=True, head_node_args={**common, "include_dashboard": False}
    )
    nodes: dict[int, Any] = {}

    def add_node(resources: dict[str, float], *, wait: bool = True) -> int:
        node = cluster.add_node(wait=wait, **common, resources=resources)
        pid = node.all_processes["raylet"][0].process.pid
        nodes[pid] = node
        return int(pid)

    def say(**words: Any) -> None:
        print(json.dumps(words), file=output, flush=True)

    for _ in range(count - 1):
        add_node({}, wait=False)
    cluster.wait_for_nodes()
    say(address=cluster.address)
    for line in sys.stdin:
        order = json.loads(line)
        if order["do"] == "add":
            say(pid=add_node(order["resources"]))
        elif order["do"] == "remove":
            node = nodes.pop(order["pid"], cluster.head_node)
            # A worker outlives its raylet until it has noticed, and answers meanwhile.
            workers = children_of(node.all_processes["raylet"][0].process.pid)
            cluster.remove_node(node, allow_graceful=False)
            for pid in workers:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            say()
        elif order["do"] == "stored":
            reply = get_memory_info_reply(get_state_from_address(cluster.address))
            say(bytes=reply.store_stats.cumulative_created_bytes)
    cluster.shutdown()


if __name__ == "__main__":
    main(int(sys.argv[1]))
