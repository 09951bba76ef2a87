"""An engine with one tool that is sent a secret, and all that is logged, kept and told of it."""

from __future__ import annotations

import io
import json
import logging
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import msgspec
import structlog
from msgspec.structs import asdict

from tests.calls.audit import EMPTY_FOLDER
from tool_engine import (
    ToolEngine,
    ToolEngineConfig,
    ToolEngineEvent,
    ToolExecutionContext,
    ToolExecutionResult,
    ToolKnowledgeStore,
)
from tool_engine.agent.events import AgentEvent
from tool_engine.events.memory import MemoryEventStorage
from tool_engine.knowledge.memory import MemoryStorage
from tool_engine.model.record import KeptCall
from tool_engine.redaction import remember_secret

__all__ = ["KINDS", "SENT", "SecretWorld"]

SENT = ("parameter", "part", "default")
"""Secrets that a call is sent, so that whoever fails on it may know them."""
KINDS = (*SENT, "engine", "token")
_ANY = {"type": "string", "description": "Any."}


class Records(MemoryStorage):
    """A storage of records that can break."""

    def __init__(self, fail: Callable[..., NoReturn]) -> None:
        super().__init__()
        self.broken = False
        self._fail = fail

    def add(self, kept: KeptCall) -> None:
        if self.broken:
            self._fail()
        super().add(kept)


class Events(MemoryEventStorage):
    """A storage of events that can break."""

    def __init__(self, fail: Callable[..., NoReturn]) -> None:
        super().__init__()
        self.broken = False
        self._fail = fail

    def append(self, event: ToolEngineEvent) -> None:
        if self.broken:
            self._fail()
        super().append(event)


class SecretWorld:
    """The tool `pay`, of which one argument is or holds a secret of the kind.

    Args:
        kind: `parameter`, `part` (of an object, `writeOnly`), `default` (of a secret parameter),
            `engine` (read from the environment, say) or `token` (by its shape).
    """

    def __init__(self, kind: str, **options: Any) -> None:
        digits = uuid.uuid4().hex
        self.kind = kind
        self.canary = f"ghp_{digits}0123" if kind == "token" else f"q{digits}"
        if kind == "engine":
            remember_secret(self.canary)
        self.log, self.lines = io.StringIO(), io.StringIO()
        self.said: list[Any] = []
        """Whatever else left the engine."""
        self.got: list[dict[str, Any]] = []
        self.on_call: Callable[[], Any] = lambda: "paid"
        self.events: list[ToolEngineEvent] = []
        config = ToolEngineConfig(
            tools_directory=EMPTY_FOLDER, auto_reload=False, **options.pop("config", {})
        )
        self.records, self.kept = Records(self.fail), Events(self.fail)
        store = ToolKnowledgeStore(self.records)
        self.engine = ToolEngine(config, store=store, event_storage=self.kept, **options)
        self.engine.subscribe(self.events.append)

    def define(self, *, has_handler: bool = True, **more: Any) -> None:
        """Registers the tool; without a handler it runs as its `entry` says."""
        default = {"default": self.canary} if self.kind == "default" else {}
        word = {"word": {"type": "string", "writeOnly": True}, "who": {"type": "string"}}
        login = {"name": "login", "type": "object", "description": "Who."}
        parameters = [
            {"name": "pin", "secret": True, **_ANY},
            {**login, "schema": {"properties": word}},
            {"name": "fallback", "secret": True, **_ANY, **default},
            {"name": "note", **_ANY},
        ]

        async def pay(pin: str = "", login: Any = None, fallback: str = "", note: str = "") -> Any:
            self.got.append({"pin": pin, "login": login, "fallback": fallback, "note": note})
            return self.on_call()

        definition = {"name": "pay", "description": "Pays.", "parameters": parameters, **more}
        self.engine.register_tool(definition, pay if has_handler else None)

    @property
    def arguments(self) -> dict[str, Any]:
        """What a call of the tool is sent."""
        sent: dict[str, dict[str, Any]] = {
            "parameter": {"pin": self.canary},
            "part": {"login": {"word": self.canary, "who": "ada"}},
            "default": {"note": "n"},
        }
        return sent.get(self.kind, {"note": f"for {self.canary}"})

    def fail(self, *_: object, **__: object) -> NoReturn:
        """What foreign code does that is called with the arguments, or has come by them."""
        try:
            raise KeyError(self.canary)
        except KeyError as cause:
            error = ValueError(
                f"cannot go on with {self.canary!r}; " + "x" * 150 + " " + self.canary
            )
            error.add_note(f"it was {self.canary}")
            raise error from cause

    async def fail_later(self, *_: object, **__: object) -> NoReturn:
        """The same of what is async."""
        self.fail()

    def fail_once(self) -> str:
        """Fails at its first call."""
        if len(self.got) == 1:
            self.fail()
        return "paid"

    async def call(self, **context: Any) -> ToolExecutionResult:
        """One call of the tool."""
        result = await self.engine.execute("pay", self.arguments, ToolExecutionContext(**context))
        self.keep(result)
        return result

    def keep(self, result: ToolExecutionResult) -> None:
        """Looks at all of a result but its output, which is the tool's own."""
        read = [getattr(result, name, None) for name in ("formatted_text", "final_text")]
        self.said.append([result.error, result.validation_errors, result.metadata, *read])
        self.said.append(repr(result))

    def hear(self, event: AgentEvent) -> None:
        """Looks at an event of a conversation as it may be written down."""
        self.said.append(event.to_dict())

    async def check(self, *names: str, has_run: bool) -> None:
        """Nothing told the secret, these lines were logged, and the tool got it if it ran."""
        records = await self.engine.query_call_records()
        summary = await self.engine.get_call_statistics()
        await self.engine.close()
        told = [[repr(each), each.to_dict(), repr(asdict(each))] for each in self.events]
        heard = {
            "log": self.log.getvalue(),
            "logging": self.lines.getvalue(),
            "records": repr(records) + msgspec.json.encode(records).decode(),
            "summary": repr(summary),
            "events": json.dumps(told, default=repr),
            "said": json.dumps(self.said, default=repr),
        }
        for name in names:
            assert f'"{name}"' in heard["log"], heard["log"]
        halves = self.canary[4:16], self.canary[-12:]
        found = {place: text for place, text in heard.items() for half in halves if half in text}
        assert found == {}
        assert bool(self.got) is has_run
        assert all(self.canary in repr(each) for each in self.got), self.got

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Keeps every line that is logged meanwhile, with its traceback."""
        structlog.configure(
            processors=[structlog.processors.format_exc_info, structlog.processors.JSONRenderer()],
            logger_factory=structlog.PrintLoggerFactory(self.log),
        )
        handler, root = logging.StreamHandler(self.lines), logging.getLogger()
        level = root.level
        root.addHandler(handler)
        root.setLevel(logging.DEBUG)
        try:
            yield
        finally:
            root.removeHandler(handler)
            root.setLevel(level)
