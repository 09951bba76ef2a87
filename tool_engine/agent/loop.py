"""How does a conversation between a user, a model and its tools go on? R1, A41."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, Mapping
from importlib import import_module
from typing import Any, Final, Self

import msgspec

from tool_engine.agent.answer import AgentAnswer
from tool_engine.agent.events import AgentEvent, AgentEventType
from tool_engine.agent.history import History
from tool_engine.agent.listening import Listeners, OnEvent, end_task
from tool_engine.agent.models.carried import wire_of
from tool_engine.agent.transcript import ChildHistory, Transcript, TranscriptEntry
from tool_engine.agent.turn import Turn
from tool_engine.errors import ConfigurationError, SessionError, ToolEngineError
from tool_engine.interfaces import ChatModel
from tool_engine.interfaces.protocol import is_for_text
from tool_engine.model.chat import ChatRequest
from tool_engine.model.checks.bounds import check_count
from tool_engine.model.checks.field_types import convert_value
from tool_engine.model.checks.known_fields import KnownArguments, KnownNames
from tool_engine.model.json.copying import refuse_copying
from tool_engine.model.tool import Tool
from tool_engine.protocols.object_arguments import make_readable
from tool_engine.redaction import shorten_words, words_of
from tool_engine.session.session import ToolSession
from tool_engine.session.variables.labels import UNKNOWN

_METHODS: Final = ("user_message", "reply")
_VALUES: Final = ("name", "protocol")


@refuse_copying("keep it with to_dict() and get it back with AgentLoop.from_dict()")
class AgentLoop(KnownArguments, KnownNames):
    """A conversation: asks the model, runs its calls, and asks again.

    It works with any `ChatModel`. The session decides what the conversation may use and spend. One
    turn runs at a time; loops with sessions of their own run beside one another.

    Args:
        session: What the conversation may use, remember and spend.
        model: The model that answers.
        system: The first part of the system prompt; the session's rules follow it.
        on_event: Hears each step: a plain function; its errors are logged.
        is_streamed: Whether replies are requested in chunks.
        max_tokens: The most tokens of one reply; None: the model's own setting.
        sub_agents: How deep sub-agents may nest, which the model calls with `call_sub_agent`; 0:
            none. R13.

    Raises:
        ConfigurationError: An argument has the wrong type, or `sub_agents` is no depth.
        ToolConflictError: With sub-agents: the session has a tool of that name.

    Example:
        >>> loop = AgentLoop(ToolSession(engine, "chat-1"), chat_model("openai:gpt-5"))
        >>> answer = await loop.run("What is 6 times 7?")
        >>> answer.text
        '42'
    """

    def __init__(
        self,
        session: ToolSession,
        model: ChatModel,
        *,
        system: str = "",
        on_event: OnEvent | None = None,
        is_streamed: bool = True,
        max_tokens: int | None = None,
        sub_agents: int = 0,
    ) -> None:
        _check_parts(session, model, system)
        if not isinstance(is_streamed, bool):
            raise ConfigurationError(f"is_streamed must be True or False, got {is_streamed!r}")
        if max_tokens is not None:
            check_count("max_tokens", max_tokens, minimum=1)
        check_count("sub_agents", sub_agents)
        self.session = session
        self._model = model
        self.system = system
        self.is_streamed = is_streamed
        self.max_tokens = max_tokens
        self.sub_agents = sub_agents
        self.history = History(model)
        self.record = Transcript()
        self.children: dict[str, ChildHistory] = {}
        """Sub-agents' work by the id of the call that they worked for."""
        self.listeners = Listeners(on_event, self._find_tool, session.calls.secrets)
        self.listeners.watch(session.gate)
        if sub_agents:
            import_module("tool_engine.agent.sub_agents").offer_sub_agents(self)

    def __repr__(self) -> str:
        state = "in a turn" if self.listeners.is_running else "idle"
        return (
            f"<AgentLoop {self.session.session_id!r} with {self.model.name!r}, {state}, "
            f"{self.history!r}>"
        )

    def _find_tool(self, name: str) -> Tool | None:
        # Disabled tools count too: they may be called, with secrets in their arguments.
        placed = self.session.toolbox.find(name)
        return None if placed is None else placed.tool

    @property
    def model(self) -> ChatModel:
        """The model that answers; to change it, use `to_dict` and `from_dict`."""
        return self._model

    @property
    def messages(self) -> list[Any]:
        """A copy of the conversation, in the form of the model's protocol."""
        return list(self.history.messages)

    @property
    def is_running(self) -> bool:
        """Return True while a turn runs."""
        return self.listeners.is_running

    def transcript(self) -> list[TranscriptEntry]:
        """Return what was said and done, for every model alike. A42.

        More than the messages: it includes what the loop itself said to the model, and turns that
        broke off before the model said anything.
        """
        return list(self.record.entries)

    async def run(self, text: str) -> AgentAnswer:
        """Run one turn, from the user's text to the model's answer.

        If cancelled at any point, the conversation stays valid: calls that had ended keep their
        results, the others get one that says `cancelled`.

        Args:
            text: What the user says.

        Returns:
            The answer; `stop_reason` says whether the model came to an end by itself.

        Raises:
            ChatModelError: The model could not be reached, or its provider refused. If the model
                had said nothing in this turn, the turn is taken back and may be run again.
            ConfigurationError: The text is empty, or no text.
            SessionError: A turn is running already.
            asyncio.CancelledError: The caller was cancelled.
        """
        return await self._run_turn(self._begin_turn(text), text)

    async def stream(self, text: str) -> AsyncGenerator[AgentEvent, None]:
        """Run one turn and yield its steps, up to `finished` or `error`.

        The turn does not wait for its listener. Closing the generator cancels the turn, and waits
        until nothing of it is left.

        Args:
            text: What the user says.

        Raises:
            ConfigurationError: The text is empty, or no text.
            SessionError: A turn is running already.
            asyncio.CancelledError: The caller was cancelled.
        """
        begun = self._begin_turn(text)
        heard: asyncio.Queue[AgentEvent | None] = asyncio.Queue()
        turn = asyncio.create_task(self._run_turn(begun, text, heard.put_nowait))
        turn.add_done_callback(lambda _: heard.put_nowait(None))
        try:
            while (event := await heard.get()) is not None:
                yield event
            if turn.cancelled():
                raise asyncio.CancelledError
            error = turn.exception()
            if error is not None and not isinstance(error, ToolEngineError):
                raise error
        finally:
            await end_task(turn)
            # A task that is cancelled before its first step has emitted no last event.
            self.listeners.end(begun)

    def request(self, *, may_call: bool = True) -> ChatRequest:
        """Return the request that the model would get now.

        Raises:
            ToolConflictError: Two tools of the session have one name.
        """
        if self.sub_agents:
            import_module("tool_engine.agent.sub_agents").note_effect(self.session)
        protocol = self.model.protocol
        rules = self.session.system_prompt(protocol)
        tools = None
        if not is_for_text(protocol):
            shown = self.session.tools()
            tools = protocol.definitions(shown) if shown else None
        return ChatRequest(
            messages=self.messages,
            system="\n\n".join(part for part in (self.system, rules) if part),
            tools=tools,
            may_call=may_call,
            max_tokens=self.max_tokens,
            is_streamed=self.is_streamed,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the conversation as JSON values for `from_dict`, without its session.

        Raises:
            SessionError: A turn is running, so its end is not known yet.
        """
        self._require_idle()
        return {
            "protocol": self.model.protocol.name,
            "wire": wire_of(self.model.protocol),
            "system": self.system,
            "messages": self.messages,
            "transcript": self.record.to_list(),
            "children": msgspec.to_builtins(self.children),
            "read": sorted(self.session.read_labels.labels),
        }

    @classmethod
    def from_dict(
        cls, data: Mapping[str, Any], session: ToolSession, model: ChatModel, **options: Any
    ) -> Self:
        """Restore the conversation that `to_dict` wrote, perhaps in another process.

        Args:
            data: What `to_dict` returned.
            session: As for a new loop; restore it separately if it is to go on, too.
            model: A model of the same protocol: the messages have no other form.
            options: The other arguments of a new loop.

        Raises:
            SessionError: The data is something else, or for another protocol.
        """
        try:
            kept = convert_value(data, _Kept)
        except msgspec.ValidationError as error:
            raise SessionError(f"this is no kept conversation: {error}") from error
        # Checked before the loop is made: the session would keep a failed one among its listeners.
        _check_parts(session, model, kept.system)
        wire = wire_of(model.protocol)
        if (kept.protocol, kept.wire) != (model.protocol.name, wire):
            raise SessionError(
                f"the conversation was kept for the protocol {kept.protocol!r} in messages of "
                f"{kept.wire!r}, and {model.name!r} speaks {model.protocol.name!r} in those of "
                f"{wire!r}: go on with a model of the same"
            )
        loop = cls(session, model, **{"system": kept.system, **options})
        loop.history = History(model, kept.messages)
        loop.record = Transcript(kept.transcript)
        loop.children = kept.children
        session.read_labels.note(_find_labels_read(kept, session))
        for name, arguments in loop.record.newest_calls():
            loop.listeners.note_kept_call(name, arguments)
        return loop

    def _begin_turn(self, text: object) -> object:
        if not isinstance(text, str) or not text.strip():
            raise ConfigurationError(f"the user must say something: text is {text!r}")
        _check_text("text", text)
        self._require_idle()
        return self.listeners.begin()

    async def _run_turn(self, begun: object, text: str, hear: OnEvent | None = None) -> AgentAnswer:
        listeners = self.listeners
        if hear is not None:
            listeners.add(hear)
        try:
            answer = await Turn(self, listeners).run(text)
            answer = msgspec.structs.replace(answer, _secrets=listeners.secrets)
            listeners.emit(AgentEventType.FINISHED, answer=answer, usage=answer.usage)
            return answer
        except Exception as error:
            is_own = isinstance(error, ToolEngineError)
            secrets = listeners.known_secrets()
            said = shorten_words(str(error), *secrets) if is_own else words_of(error, *secrets)
            listeners.emit(AgentEventType.ERROR, error=make_readable(said))
            raise
        finally:
            listeners.end(begun)
            if hear is not None:
                listeners.remove(hear)

    def _require_idle(self) -> None:
        if self.listeners.is_running:
            raise SessionError(
                f"the conversation {self.session.session_id!r} is in a turn: wait for its end, "
                "or cancel it"
            )


class _Kept(msgspec.Struct, forbid_unknown_fields=True):
    protocol: str
    wire: str
    system: str
    messages: list[Any]
    transcript: list[TranscriptEntry]
    children: dict[str, ChildHistory]
    read: list[str] | None = None
    """The labels of what its messages hold; None: a former version kept it."""


def _find_labels_read(kept: _Kept, session: ToolSession) -> list[str]:
    """Return the labels of what the model reads in the messages.

    The session may be another one than theirs, and know nothing of them.
    """
    if kept.read is not None:
        return kept.read
    is_known = bool(session.read_labels.labels)
    has_results = any(each.role == "tool" for each in kept.transcript)
    return [UNKNOWN] if has_results and not is_known else []


def _check_parts(session: object, model: object, system: object) -> None:
    if not isinstance(session, ToolSession):
        raise ConfigurationError(f"session must be a ToolSession, got {session!r}")
    missing = [name for name in _METHODS if not callable(getattr(model, name, None))]
    missing += [name for name in _VALUES if not hasattr(model, name)]
    if missing:
        raise ConfigurationError(
            f"model must be a ChatModel, such as chat_model('openai:NAME') gives, got {model!r}, "
            f"which lacks {', '.join(missing)}"
        )
    protocol = getattr(model, "protocol", None)
    if not callable(getattr(protocol, "parse", None)):
        raise ConfigurationError(
            f"the protocol of {type(model).__name__} must be a protocol, such as "
            f"get_protocol('openai') gives, got {protocol!r}"
        )
    if inspect.iscoroutinefunction(getattr(model, "reply", None)):
        raise ConfigurationError(
            f"the reply of {type(model).__name__} must be an async generator, whose chunks are "
            "yielded: it is a coroutine function"
        )
    if not isinstance(system, str):
        raise ConfigurationError(f"system must be a text, got {system!r}")
    _check_text("system", system)


def _check_text(name: str, text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ConfigurationError(
            f"{name} holds half of a character at {error.start}, which no provider takes: a text "
            "was cut there, or decoded wrongly"
        ) from None
