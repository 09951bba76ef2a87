"""A server of 2026-07-28 over standard input and output that breaks rules.

Its tools are the `CALLS`; `python hostile_modern_program.py`.
"""

from __future__ import annotations

import json
import sys
from typing import Any

Message = dict[str, Any]
ELICIT = {"method": "elicitation/create", "params": {"message": "Your password?"}}
FORM = {"type": "object", "properties": {"password": {"type": "string"}}}
CALLS: dict[str, Message] = {
    "plain": {},
    "task": {"resultType": "task", "taskId": "x", "status": "working", "content": None},
    "odd_kind": {"resultType": "later"},
    "no_kind": {"resultType": None},
    "rounds": {"resultType": "input_required", "requestState": "x" * 100_000},
    "password": {
        "resultType": "input_required",
        "inputRequests": {"p": ELICIT | {"params": ELICIT["params"] | {"requestedSchema": FORM}}},  # type: ignore[operator]
    },
    "odd_question": {
        "resultType": "input_required",
        "inputRequests": {"p": {"method": "tools/call", "params": {"name": "plain"}}},
    },
}
HEADER = {"type": "object", "properties": {"a": {"type": "string", "x-mcp-header": "A\r\nB: c"}}}
INFO = {"name": "x", "version": "1"}


def list_tools(number: int) -> Message:
    tools: list[Message] = [{"name": name, "inputSchema": {"type": "object"}} for name in CALLS]
    tools.append({"name": "header", "inputSchema": HEADER})
    tools.append({"name": f"reading_{number}", "inputSchema": {"type": "object"}})
    return {"tools": tools, "ttlMs": -5, "cacheScope": "public"}


def answer_call(name: str) -> Message:
    made = {"resultType": "complete", "content": [{"type": "text", "text": name}]} | CALLS[name]
    return {key: value for key, value in made.items() if value is not None}


def main() -> None:
    readings = 0
    for line in sys.stdin:
        asked = json.loads(line)
        result: Message | None = None
        match asked.get("method"):
            case "server/discover":
                able = {"tools": {"listChanged": True}}
                result = {"supportedVersions": ["2026-07-28"], "capabilities": able}
                result |= {"serverInfo": INFO, "ttlMs": 0, "cacheScope": "private"}
            case "tools/list":
                readings += 1
                result = list_tools(readings)
            case "tools/call":
                result = answer_call(asked["params"]["name"])
            case "subscriptions/listen":
                # Each stream ends as soon as it has begun.
                meta = {"io.modelcontextprotocol/subscriptionId": asked["id"]}
                params = {"_meta": meta, "notifications": {"toolsListChanged": True}}
                method = "notifications/subscriptions/acknowledged"
                print(json.dumps({"jsonrpc": "2.0", "method": method, "params": params}))
                result = {}
        message: Message = {"jsonrpc": "2.0", "id": asked.get("id")}
        if result is None:
            message["error"] = {"code": -32601, "message": "no"}
        else:
            message["result"] = {"resultType": "complete", **result}
            if asked["method"] == "tools/call":
                message["result"] = result
        if "id" in asked:
            print(json.dumps(message), flush=True)


if __name__ == "__main__":
    main()
