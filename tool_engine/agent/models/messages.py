"""What does a plain message look like in each provider's form?"""

from __future__ import annotations

from typing import Any


def say(wire: str, role: str, text: str) -> dict[str, Any]:
    """Return a message of protocol `wire`; roles are `user` and `assistant`."""
    if wire == "gemini":
        return {"role": "model" if role == "assistant" else role, "parts": [{"text": text}]}
    return {"role": role, "content": text}
