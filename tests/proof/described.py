"""Does the HTTP API do what it says of itself? Programs that are not ours ask it.

They have an environment of their own, `.venv-proof`, which `make proof` makes where it can.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from tests.server.process import HEADERS, ServerProcess, fetch, server_process

__all__ = ["prove"]

PROGRAMS: Final = Path(os.environ.get("PROOF_PROGRAMS", ".venv-proof/bin")).absolute()
EXAMPLES: Final = 100
"""Of each operation and each phase."""
LIMIT: Final = 3600.0
NOT_ASKED: Final = ("stream_events", "drain_calls", "pause_calls")
"""One does not end, and after the others no call runs; tests/server tries them."""
ASKED_LAST: Final = "roll_back"
"""It takes the tools away."""
NO_CHECK: Final = "use_after_free"
"""Whether what was deleted is gone: what was cancelled is kept, with how it ended."""
EXCLUDE: Final = "--exclude-operation-id"
SETTINGS: Final = """
hooks = "hooks.py"
request-timeout = 90.0
[dictionaries.tools]
values = ["say", "pause", "shout"]
[dictionaries.calls]
values = ["{call_id}"]
[dictionaries.records]
values = ["{record_id}"]
[dictionaries.tasks]
values = ["{task_id}"]
[dictionaries.requests]
values = ["{token}"]
[dictionaries.formats]
values = ["openai", "openai_responses", "anthropic", "gemini", "mcp"]
[dictionaries.protocols]
values = ["openai", "openai_responses", "anthropic", "gemini", "vcp", "function_call"]

[parameters."body.protocol"]
dictionary = "protocols"
probability = 0.8
[parameters."path.name"]
dictionary = "tools"
probability = 0.7
[parameters."path.call_id"]
dictionary = "calls"
probability = 0.5
[parameters."path.record_id"]
dictionary = "records"
probability = 0.5
[parameters."path.task_id"]
dictionary = "tasks"
probability = 0.5
[parameters."path.token"]
dictionary = "requests"
probability = 0.5
[parameters."path.format"]
dictionary = "formats"
probability = 0.7
"""
"""What there is: else nearly every answer is that there is no such thing."""

HOOKS: Final = """
import schemathesis

@schemathesis.hook
def before_call(context, case, kwargs):
    is_call = case.operation.definition.raw["operationId"] == "call_tool"
    is_right = case.meta is not None and case.meta.generation.mode.is_positive
    if is_call and is_right and isinstance(case.body, dict) and "ttl" in case.body:
        case.headers["prefer"] = "respond-async"
"""
"""`ttl` is of a task, which a header asks for: no description can say so."""


async def prove(seed: int) -> bool:
    """Asks a server of its own everything; whether each answer is as it is described."""
    if not (PROGRAMS / "st").exists():
        print(f"described: skipped, {PROGRAMS} has no schemathesis; `make proof` fetches it")
        return True
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        async with server_process(folder, records=f"sqlite:///{folder}/calls.db") as server:
            kept = await _validate(folder, server)
            (folder / "hooks.py").write_text(HOOKS)
            (folder / "schemathesis.toml").write_text(
                await asyncio.to_thread(_make_settings, server)
            )
            others = [word for each in (*NOT_ASKED, ASKED_LAST) for word in (EXCLUDE, each)]
            kept &= await _ask(folder, server, seed, *others)
            kept &= await _ask(folder, server, seed, "--include-operation-id", ASKED_LAST)
            code, said = await server.end()
    if code != 128 + 15 or "request_failed" in said:
        print(f"described: the server ended with {code}\n{said}")
        return False
    return kept


async def _validate(folder: Path, server: ServerProcess) -> bool:
    file = folder / "openapi.json"
    file.write_bytes(await asyncio.to_thread(fetch, f"{server.url}/openapi.json"))
    code, said = await _run(folder, "openapi-spec-validator", str(file))
    print(f"described: {said.strip()}")
    return code == 0


async def _ask(folder: Path, server: ServerProcess, seed: int, *which: str) -> bool:
    code, said = await _run(
        folder,
        "st",
        *("run", f"{server.url}/openapi.json", "--generation-database", "none"),
        *("--checks", "all", "--exclude-checks", NO_CHECK),
        *(word for name, value in HEADERS.items() for word in ("-H", f"{name}: {value}")),
        *("-n", str(EXAMPLES), "--seed", str(seed), *which),
    )
    lines = said.splitlines()
    print("\n".join(lines if code else lines[-8:]))
    return code == 0


def _make_settings(server: ServerProcess) -> str:
    """Return the settings of schemathesis, with what a server keeps after a call and a task."""
    body = {"arguments": {"message": "hello"}}
    fetch(f"{server.url}/v1/tools/say/calls", body)
    path = f"{server.url}/v1/tools/shout/calls"  # it waits for consent
    task = json.loads(fetch(path, body, {"prefer": "respond-async"}))
    record = json.loads(fetch(f"{server.url}/v1/records"))["items"][0]
    requests: list[Any] = []
    while not requests:
        requests = json.loads(fetch(f"{server.url}/v1/approvals"))["items"]
    values = {"task_id": task["id"], "token": requests[0]["token"]}
    values |= {name: record[name] for name in ("call_id", "record_id")}
    text = SETTINGS
    for name, value in values.items():
        text = text.replace(f"{{{name}}}", value)
    return text


async def _run(folder: Path, program: str, *words: str) -> tuple[int | None, str]:
    process = await asyncio.create_subprocess_exec(
        *(str(PROGRAMS / program), *words),
        cwd=folder,
        env={**os.environ, "NO_COLOR": "1"},
        stdin=subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(LIMIT):
            said, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()
    return process.returncode, said.decode(errors="replace")


if __name__ == "__main__":
    sys.exit(0 if asyncio.run(prove(int(sys.argv[1]) if sys.argv[1:] else 1)) else 1)
