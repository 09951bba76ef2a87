"""A server over standard input and output whose results hold what is no content, in both eras.

Its tools are the `CONTENT`; `python content_program.py`.
"""

from __future__ import annotations

import json
import sys
from typing import Any

TEXT = {"type": "text", "text": "known"}
CONTENT: dict[str, Any] = {
    "plain": [TEXT],
    "hologram": [TEXT, {"type": "hologram", "frames": 3}, {"type": "text", "text": "last"}],
    "bad_image": [TEXT, {"type": "image", "data": "no base64", "mimeType": "image/png"}],
    "no_text": [TEXT, {"type": "text"}],
    "no_mapping": [TEXT, "bare", None, 3],
    "bad_link": [TEXT, {"type": "resource_link", "uri": "file:///a"}],
    "bad_notes": [{**TEXT, "annotations": {"audience": ["machines"]}, "_meta": {"a": 1}}],
    "only_unknown": [{"type": "hologram"}],
    "long_type": [TEXT, {"type": "\x1b[2J" + "x" * 100_000}],
    "many": [TEXT, *({"type": f"kind-{number}"} for number in range(5_000))],
    "no_list": "known",
}
INFO = {"name": "x", "version": "1"}
TOOL = {"inputSchema": {"type": "object"}}


def answer_call(name: str) -> dict[str, Any]:
    name, _, is_error = name.partition("-")
    return {"content": CONTENT[name], "isError": bool(is_error)}


def main() -> None:
    tools = [{"name": f"{name}{end}", **TOOL} for name in CONTENT for end in ("", "-error")]
    results: dict[str, dict[str, Any]] = {
        "initialize": {
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {}},
            "serverInfo": INFO,
        },
        "server/discover": {
            "supportedVersions": ["2026-07-28"],
            "capabilities": {"tools": {}},
            "serverInfo": INFO,
            "ttlMs": 0,
            "cacheScope": "private",
        },
        "tools/list": {"tools": tools, "ttlMs": 0, "cacheScope": "private"},
    }
    for line in sys.stdin:
        asked = json.loads(line)
        if asked["method"] == "tools/call":
            result = answer_call(asked["params"]["name"])
        else:
            result = results.get(asked["method"], {})
        if "id" in asked:
            message = {"jsonrpc": "2.0", "id": asked["id"]}
            print(json.dumps({**message, "result": {"resultType": "complete", **result}}))
            sys.stdout.flush()


if __name__ == "__main__":
    main()
