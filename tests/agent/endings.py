"""In how many ways can a turn end, and what does the conversation hold then?

Each `Ending` is a turn of a user's, what the model says in it, and how it ends; after it the
conversation goes on. `spoken` gives the same for a model that writes its calls as text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from tests.agent.models.speaking import PROVIDERS, Turn
from tests.agent.world import call
from tests.protocols import wire_function_call, wire_vcp
from tool_engine.agent.answer import StopReason
from tool_engine.errors import ChatModelError

__all__ = ["ENDINGS", "TEXT_PROTOCOLS", "Ending", "speak_turn"]

TEXT_PROTOCOLS: Final[Mapping[str, Any]] = {
    "vcp": wire_vcp.render_reply,
    "function_call": wire_function_call.render_reply,
}
"""Text protocol -> how its models write calls."""
DOWN: Final = ChatModelError("down")
FILTERED: Final = ChatModelError("flagged", status=400, is_refusal=True)


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """One way in which a turn ends."""

    turns: list[Any]
    """What the model says; an exception fails in its place."""
    stop: StopReason | None
    """None: the model fails."""
    says: str = "Go."
    """What the user says."""
    config: dict[str, Any] = {}
    ran: list[str] = []
    wires: Sequence[str] = tuple(PROVIDERS)
    keeps: str = ""
    """What the conversation holds afterwards."""
    drops: str = ""
    """What it does not."""


ADD = call(1, a=1, b=2)
ADDS = [ADD, call(2, a=3, b=4)]
SAME = [Turn(calls=[call(number, a=1, b=2)]) for number in range(1, 5)]
PAUSED = Turn(text="I search. ", stop="pause")
DONE = Turn(text="It is 3.")
ONLY_CLAUDE = ("anthropic",)

ENDINGS: Final[Mapping[str, Ending]] = {
    "completed": Ending(turns=[DONE], stop=StopReason.COMPLETED, keeps="It is 3."),
    "calls": Ending(
        turns=[Turn(text="I add.", thought="Hm.", calls=ADDS), DONE],
        stop=StopReason.COMPLETED,
        ran=["add", "add"],
    ),
    "a call that fails": Ending(
        turns=[Turn(calls=[call(1, "fail"), call(2, "missing")]), DONE],
        stop=StopReason.COMPLETED,
        ran=["fail"],
    ),
    "cut": Ending(turns=[Turn(text="Half", stop="max_tokens"), DONE], stop=StopReason.COMPLETED),
    "cut with calls": Ending(
        turns=[Turn(text="Half", calls=ADDS, stop="max_tokens"), DONE],
        stop=StopReason.COMPLETED,
        ran=["add"],
    ),
    "cut twice": Ending(
        turns=[Turn(text="Half", stop="max_tokens")] * 2, stop=StopReason.TRUNCATED
    ),
    "cut twice with calls": Ending(
        turns=[
            Turn(calls=ADDS, stop="max_tokens"),
            Turn(calls=[call(3, a=5, b=6)], stop="context"),
        ],
        stop=StopReason.TRUNCATED,
        ran=["add"],
    ),
    "context exceeded": Ending(
        turns=[Turn(calls=[ADD]), Turn(text="Half", stop="context"), DONE],
        stop=StopReason.COMPLETED,
        ran=["add"],
    ),
    "refused": Ending(
        turns=[Turn(text="No forbidden things.", stop="refusal")],
        stop=StopReason.REFUSED,
        says="Do something forbidden.",
        drops="forbidden",
    ),
    "filtered with calls": Ending(
        turns=[Turn(text="A forbidden", calls=ADDS, stop="content_filter")],
        stop=StopReason.REFUSED,
        says="Do something forbidden.",
        drops="forbidden",
    ),
    "refused after calls": Ending(
        turns=[
            Turn(calls=[ADD, call(2, "write", text="forbidden")]),
            Turn(text="Not that.", stop="refusal"),
        ],
        stop=StopReason.REFUSED,
        says="Do something forbidden.",
        ran=["add", "write forbidden"],
        keeps="Calls that ran in it: add, write",
        drops="forbidden",
    ),
    "refused after a pause": Ending(
        turns=[PAUSED, Turn(text="A forbidden", stop="refusal")],
        stop=StopReason.REFUSED,
        says="Do something forbidden.",
        wires=ONLY_CLAUDE,
        drops="forbidden",
    ),
    "refused by an error after calls": Ending(
        turns=[Turn(calls=[ADD]), FILTERED],
        stop=None,
        says="Do something forbidden.",
        ran=["add"],
        keeps="Calls that ran in it: add",
        drops="forbidden",
    ),
    "paused": Ending(
        turns=[PAUSED, PAUSED, DONE],
        stop=StopReason.COMPLETED,
        wires=ONLY_CLAUDE,
        keeps="srvtoolu_2",
    ),
    "paused, then calls": Ending(
        turns=[PAUSED, Turn(text="I add.", calls=ADDS), DONE],
        stop=StopReason.COMPLETED,
        wires=ONLY_CLAUDE,
        ran=["add", "add"],
    ),
    "paused with calls": Ending(
        turns=[Turn(text="I add.", calls=ADDS, stop="pause"), DONE],
        stop=StopReason.COMPLETED,
        wires=ONLY_CLAUDE,
        ran=["add", "add"],
    ),
    "paused, then paused with calls": Ending(
        turns=[PAUSED, Turn(text="I add.", calls=ADDS, stop="pause"), DONE],
        stop=StopReason.COMPLETED,
        wires=ONLY_CLAUDE,
        ran=["add", "add"],
    ),
    "paused at the bound": Ending(
        turns=[PAUSED, PAUSED, Turn(text="Enough.")],
        stop=StopReason.MAX_ROUNDS,
        wires=ONLY_CLAUDE,
        config={"max_iterations": 2},
        keeps="Enough.",
    ),
    "paused behind the bound": Ending(
        turns=[PAUSED, PAUSED],
        stop=StopReason.MAX_ROUNDS,
        wires=ONLY_CLAUDE,
        config={"max_iterations": 1},
    ),
    "paused, then cut": Ending(
        turns=[PAUSED, Turn(text="Half", stop="max_tokens"), DONE],
        stop=StopReason.COMPLETED,
        wires=ONLY_CLAUDE,
    ),
    "paused, then down": Ending(turns=[PAUSED, DOWN], stop=None, wires=ONLY_CLAUDE),
    "unknown": Ending(turns=[Turn(text="Hm.", stop="unknown")], stop=StopReason.COMPLETED),
    "unknown with calls": Ending(
        turns=[Turn(calls=ADDS, stop="unknown"), DONE],
        stop=StopReason.COMPLETED,
        ran=["add", "add"],
    ),
    "empty": Ending(turns=[Turn()], stop=StopReason.EMPTY),
    "empty after calls": Ending(
        turns=[Turn(calls=[ADD]), Turn()], stop=StopReason.EMPTY, ran=["add"]
    ),
    "down": Ending(turns=[DOWN], stop=None, drops="Go."),
    "down after calls": Ending(turns=[Turn(calls=[ADD]), DOWN], stop=None, ran=["add"]),
    "at the bound": Ending(
        turns=[Turn(calls=ADDS), Turn(text="Enough.")],
        stop=StopReason.MAX_ROUNDS,
        config={"max_iterations": 1},
        ran=["add", "add"],
        keeps="max_rounds_reached",
    ),
    "calls behind the bound": Ending(
        turns=[Turn(calls=[ADD]), Turn(calls=[call(2, a=3, b=4)])],
        stop=StopReason.MAX_ROUNDS,
        config={"max_iterations": 1},
        ran=["add"],
    ),
    "repeating": Ending(
        turns=[*SAME, Turn(text="Enough.")],
        stop=StopReason.REPEATING,
        ran=["add"] * 4,
        keeps="You made the same calls",
    ),
    "images": Ending(
        turns=[Turn(calls=[call(1, "picture"), ADDS[1]]), DONE],
        stop=StopReason.COMPLETED,
        ran=["picture", "add"],
    ),
    "images again and again": Ending(
        turns=[*(Turn(calls=[call(number, "picture")]) for number in (1, 2)), DONE],
        stop=StopReason.COMPLETED,
        ran=["picture", "picture"],
        keeps="You made the same calls",
    ),
}
"""A name -> the ending."""


def speak_turn(turn: Any, protocol: str | None) -> Any:
    """The turn as a model says it that writes its calls as text; None: natively."""
    if protocol is None or not isinstance(turn, Turn) or not turn.calls:
        return turn
    calls = turn.calls
    if protocol == "vcp":
        # Every argument is a text there.
        texts = [{name: str(value) for name, value in each.arguments.items()} for each in calls]
        pairs = zip(calls, texts, strict=True)
        calls = [msgspec.structs.replace(each, arguments=told) for each, told in pairs]
    text = TEXT_PROTOCOLS[protocol](calls, turn.text)
    if turn.stop in ("max_tokens", "context"):
        text = text.rstrip()[:-5]
    return msgspec.structs.replace(turn, text=text, calls=[], thought="")
