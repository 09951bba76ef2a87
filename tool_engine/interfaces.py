"""Where can somebody plug in their own part, and what must that part keep to?

Each extension point is a Protocol of one to four methods; its contract stands here once, and one
contract suite in `tests/contracts` holds every implementation to it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from tool_engine.model.call import Refusal, ToolCall, ToolExecutionContext, ToolExecutionResult
from tool_engine.model.event import ToolEngineEvent
from tool_engine.model.match import ToolMatch
from tool_engine.model.record import KeptCall, RecordQuery, RecordTotals, ToolCallRecord
from tool_engine.model.tool import Tool

if TYPE_CHECKING:
    from tool_engine.model.approval import ApprovalDecision, ApprovalRequest
    from tool_engine.model.chat import ChatRequest

    # What only models' replies need is loaded with the first protocol.
    from tool_engine.model.reply import ParsedReply, StreamEvent
    from tool_engine.model.session import SessionInfo

__all__ = [
    "AdmissionController",
    "ApprovalStorage",
    "Approver",
    "CallScope",
    "ChatModel",
    "EventCallback",
    "EventStorage",
    "ExecutionBackend",
    "FindCall",
    "RecordStorage",
    "ReplyDecoder",
    "Run",
    "SearchTools",
    "SessionStorage",
    "Slot",
    "ToolCallingProtocol",
    "ToolExecutor",
]

EventCallback = Callable[[ToolEngineEvent], Awaitable[None] | None]
"""A subscriber: sync or async, called once per event; what it raises is logged, never passed on."""

SearchTools = Callable[[str, int], Sequence[ToolMatch]]
"""`ToolEngine.search_tools`, for those who may not know the engine; called from any thread."""

FindCall = Callable[[str], Awaitable[ToolCallRecord | None]]
"""`ToolKnowledgeStore.get_whole`, for those who may not know the store."""


@runtime_checkable
class ToolExecutor(Protocol):
    """Runs one kind of tool.

    `params` has been validated against the tool's schema, defaults included, and belongs to the
    executor. A value that is returned becomes the call's output; an exception becomes an
    `execution_error`, `TimeoutError` a `timeout`. The deadline arrives as cancellation: give back
    what you hold and let `CancelledError` pass. An `execute` that is not a coroutine function runs
    in a thread, unless the executor has `is_async = True`: then it returns a coroutine. An executor
    that holds resources has `async def close(self)`, called once. One with `needs_consent = True`
    runs only what somebody was asked about, even where the tool's definition has no `permission`;
    one with `preview(self, tool, params)`, plain or async, tells them what would change.
    """

    async def execute(
        self, tool: Tool, params: dict[str, Any], context: ToolExecutionContext
    ) -> Any:
        """Runs `tool` once and returns its output."""


class Approver(Protocol):
    """Asks somebody for consent.

    `approve` may take its time: the call holds no slot meanwhile. It is cancelled when the request
    expires or its call ends. What it raises is a refusal. It returns None when nobody can answer
    now: the call ends as `approval_required`, and may be resumed with the request's token. True,
    False and the reason of a refusal are taken for a decision, too.
    """

    async def approve(self, request: ApprovalRequest) -> ApprovalDecision | None:
        """The decision about one request."""


class ApprovalStorage(Protocol):
    """Keeps what people were asked, and what they answered, beyond the life of a process.

    Secret arguments are kept only as far as their hash: a request that has some can be answered
    where it was asked, and nowhere else.
    """

    async def put(self, request: ApprovalRequest) -> None:
        """Keeps an open request; one that was closed stays closed."""

    async def claim(self, token: str) -> bool:
        """Closes an open request; True for exactly one caller, of all processes.

        False for one that has expired.
        """

    async def pending(self, session_id: str | None = None) -> Sequence[ApprovalRequest]:
        """The open requests, oldest first; None: of every session."""

    async def remember(self, request: ApprovalRequest, decision: ApprovalDecision) -> None:
        """Keeps a decision for the same call of the same session."""

    async def remembered(self, session_id: str, fingerprint: str) -> ApprovalDecision | None:
        """What was decided about a call with this `ApprovalRequest.fingerprint`."""

    async def forget(self, session_id: str) -> int:
        """Forgets the decisions of a session, and tells how many there were."""


class SessionStorage(Protocol):
    """Keeps conversations beyond the life of a process.

    One that several may write to has `async save_if(self, session_id, data, revisions) -> bool`,
    too: as `save`, in one step, if what is kept has under `"revision"` one of these texts (empty:
    none), or if nothing is kept; else False. Of one without it a session asks before it saves.
    """

    async def save(self, session_id: str, data: dict[str, Any]) -> None:
        """Keeps what a conversation came to: JSON values, in the place of what was kept before."""

    async def load(self, session_id: str) -> dict[str, Any] | None:
        """What was kept last; None: nothing."""

    async def list(self, limit: int = 100, offset: int = 0) -> Sequence[SessionInfo]:
        """The conversations that are kept, the last saved first."""

    async def delete(self, session_id: str) -> bool:
        """Forgets a conversation, its open requests and remembered decisions; False: none."""


class CallScope(Protocol):
    """What the conversation that a call belongs to adds to it: `context.scope`.

    It goes with the call into the calls that its tool makes. One that often knows at once that a
    call may run has `is_free(self, call_id, tool, params)`, too, which gives True then: `consent`
    is not asked about that call. One that may forbid a call later on has `refusal_since`, with the
    same arguments: asked of a call that was let through and had to wait, just before it starts.

    It goes into other engines, too. One that speaks for the tools of an engine says True in
    `has_engine(self, engine, tool_name)`; else the approver of that engine must consent as well.
    """

    def own(self, tool_name: str) -> tuple[Tool, ToolExecutor] | None:
        """A tool that only this conversation has, and what runs it; the engine's own go first."""

    async def consent(self, call_id: str, tool: Tool, params: dict[str, Any]) -> Refusal | None:
        """Why the call may not run; None: it may.

        Asked after validation and before admission, with the definition and the exact arguments
        that the call will run with; if the definition changes meanwhile, it is asked again. It may
        wait, holds no slot, and is cancelled with the call.
        """


class Slot(Protocol):
    """Permission to run now."""

    @property
    def bucket(self) -> str:
        """The bucket that the slot counts against."""

    @property
    def is_overdue(self) -> bool:
        """Whether the call has ended for its caller while its work goes on."""


class AdmissionController(Protocol):
    """Decides whether and when a call may run.

    `admit` may be remote: it waits, it can be cancelled at any point without keeping anything, and
    it refuses with an `AdmissionError`. `admit_nowait` answers at once, from what it knows.
    `release` gives back exactly what was counted, never waits, never raises for a slot that was
    given back already, and may be called any number of times.
    """

    def admit_nowait(
        self, request: Any, now: float | None = None, call_id: str | None = None
    ) -> Slot | None:
        """A slot if the call may run now, else None; `now` on the controller's clock."""

    async def admit(
        self,
        request: Any,
        on_queued: Callable[[], None] | None = None,
        call_id: str | None = None,
    ) -> Slot:
        """Waits until the call may run; calls `on_queued` once if it has to wait."""

    def release(self, slot: Any, now: float | None = None, *, outcome: bool | None = True) -> None:
        """Gives the slot back, hands it on, and tells breakers how the call ended."""


class Run(Protocol):
    """One attempt to run a tool.

    Either `is_done` after its start, or to be awaited. Awaiting returns by the deadline, whatever
    the tool does, and raises nothing of the tool's: its end is in the attributes.
    """

    @property
    def is_done(self) -> bool:
        """Whether the work has stopped."""

    @property
    def is_timed_out(self) -> bool:
        """Whether the deadline came first."""

    def __await__(self) -> Generator[Any, Any, None]:
        """Waits for the end of the run or its deadline."""


class ExecutionBackend(Protocol):
    """Runs executors somewhere.

    All that crosses to it, but for the executor itself, is JSON: the tool's name and definition
    hash, the arguments, the seconds left, and `context.to_wire()`. The caller keeps the slot, and
    is told through the run when the work has really stopped.
    """

    def aim(
        self,
        run: Any,
        executor: ToolExecutor,
        tool: Tool,
        params: dict[str, Any],
        context: ToolExecutionContext,
    ) -> None:
        """Tells `run`, before it starts, what to call; never raises."""

    def keep(self, run: Any) -> None:
        """Takes over a run whose caller goes on without it."""


class RecordStorage(Protocol):
    """Keeps finished calls.

    `add` is called on the path of every call: it never waits and never raises. It is given a
    `CallEntry`, which still holds secrets: `tool_engine.knowledge.entry.record_of` turns it into
    the record that may be written or shown; or a `ToolCallRecord` that was made elsewhere. A
    storage that holds resources has `async def open(self)`, for when the engine starts, and
    `async def close(self)`, which writes what is left. Without `async def statistics(self, query)`,
    which gives `CallStatistics` by names of tools that may be shown, the store loads the records to
    add them up. With `async def removed_until(self)` it says until when records were removed. With
    `async def prune(self, retention)` it lets old records go.
    """

    def add(self, kept: KeptCall) -> None:
        """Takes one call."""

    async def query(self, query: RecordQuery) -> Sequence[ToolCallRecord]:
        """The records that match, newest first, `offset` of them left out, at most `limit`."""

    async def totals(self, query: RecordQuery) -> RecordTotals:
        """What the records that match add up to; limit and offset do not count."""


class EventStorage(Protocol):
    """Keeps events, so that they can be heard again.

    `append` is called where events are published, from any thread, in the order of their numbers:
    it never waits and never raises. A storage that has to be opened has `async def open(self)`,
    awaited when the engine is loaded; one that holds resources has `async def close(self)`, which
    writes what is left.
    """

    @property
    def newest(self) -> int | None:
        """The highest number that was ever given out, or 0; None until it is known."""

    def append(self, event: ToolEngineEvent) -> None:
        """Keeps one event."""

    async def read(self, after: int, limit: int) -> Sequence[ToolEngineEvent]:
        """The events with numbers above `after`, lowest first, at most `limit`.

        Those are among them that are not written yet. Raises `EventsExpiredError` where some are
        not kept any more, `ConfigurationError` where no event has the number `after` yet.
        """


class ReplyDecoder(Protocol):
    """Reads one reply while the model writes it. Made by `ToolCallingProtocol.decoder`.

    Neither method raises for anything that a model or a server can send: what is wrong becomes a
    finding. However a reply is cut into chunks, the calls and the text are the same in the end.
    """

    def feed(self, chunk: Any) -> list[StreamEvent]:
        """Takes the next part of the reply, and tells what it comes to."""

    def close(self) -> ParsedReply:
        """The whole reply; a call that the model did not finish is in it with `complete=False`.

        May be called again, with the same answer; `feed` may not be called after it.
        """


@runtime_checkable
class ToolCallingProtocol(Protocol):
    """How one kind of model is told of tools, asks for calls, and gets their results. A13."""

    @property
    def name(self) -> str:
        """The name under which `get_protocol` knows it."""

    def definitions(self, tools: Iterable[Tool]) -> Any:
        """What tells the model of `tools`: a request's `tools`, or text for the system prompt.

        These are fresh values, which the caller may change.
        """

    def parse(self, reply: Any) -> ParsedReply:
        """Reads a whole reply. Never raises for anything that a model or a server can send."""

    def decoder(self) -> ReplyDecoder:
        """Begins to read a reply that comes in parts."""

    def format_results(
        self, results: Sequence[ToolExecutionResult], calls: Sequence[ToolCall] | None = None
    ) -> Any:
        """What tells the model how its calls ended: the next messages as a list, or a text.

        A result belongs to the call whose id is in `metadata["request_id"]`, where the cycle puts
        it; else to the call in the same place of `calls`.

        Raises:
            ConfigurationError: It cannot be told to which call a result belongs.
        """


@runtime_checkable
class ChatModel(Protocol):
    """Asks one model for replies.

    A reply is in the model's own form: what `protocol` reads. A client that fails raises
    `ChatModelError`, with whatever it held given back; it is cancelled like any coroutine.
    """

    @property
    def name(self) -> str:
        """What the provider calls the model."""

    @property
    def protocol(self) -> ToolCallingProtocol:
        """How the model is told of tools and calls them. The same object in every turn."""

    def user_message(self, text: str) -> Any:
        """What a user says, as a message of the model's form."""

    def reply(self, request: ChatRequest) -> AsyncIterator[Any]:
        """One reply: its chunks, which `protocol.decoder()` takes one after the other.

        With `request.is_streamed` False it is one whole reply, which `protocol.parse` takes.
        """
