"""The agent of the README runs as printed, on the real SDK; a server stands for its model."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


class StandIn(BaseHTTPRequestHandler):
    """Calls the calculator, then says what came of it."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        last = asked["messages"][-1]
        said: dict[str, Any] = {"role": "assistant", "content": f"It is {last['content']}."}
        if last["role"] == "user":
            name = asked["tools"][0]["function"]["name"]
            function = {"name": name, "arguments": json.dumps({"expression": "0.17 * 2340"})}
            call = {"id": "call_1", "type": "function", "function": function}
            said = {"role": "assistant", "content": None, "tool_calls": [call]}
        choice = {"index": 0, "message": said, "finish_reason": "stop"}
        about = {"id": "1", "created": 1, "model": asked["model"], "object": "chat.completion"}
        body = json.dumps({**about, "choices": [choice]}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


def test_the_agent_answers(tmp_path: Path) -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    (tmp_path / "tools").mkdir()
    for language, start, name in (
        ("yaml", "# tools/calculator.yaml", "tools/calculator.yaml"),
        ("python", "# agent.py", "agent.py"),
    ):
        block = text.split(f"```{language}\n{start}\n", 1)[1].split("```", 1)[0]
        (tmp_path / name).write_text(block, "utf-8")
    server = ThreadingHTTPServer(("127.0.0.1", 0), StandIn)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    bare = {name: each for name, each in os.environ.items() if not name.startswith("OPENAI_")}
    env = {
        **bare,
        "PYTHONPATH": str(ROOT),
        "OPENAI_API_KEY": "none",
        "OPENAI_BASE_URL": f"http://127.0.0.1:{server.server_port}/v1",
    }
    try:
        ended = run_agent(tmp_path, env)
    finally:
        server.shutdown()
        server.server_close()
    assert ended.returncode == 0, ended.stderr
    assert "397.8" in ended.stdout
    # Without its key the SDK asks for a variable, which the page names before it.
    asked = re.search(r"`(\w+_API_KEY)`", text.partition("# agent.py")[0])
    assert asked is not None
    without = run_agent(tmp_path, {**bare, "PYTHONPATH": str(ROOT)})
    assert without.returncode == 1
    assert asked[1] in without.stderr.splitlines()[-1]


def run_agent(folder: Path, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "agent.py"],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
