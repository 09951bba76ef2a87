"""How does a tool ask the client that called it, in the middle of the call?"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, NamedTuple

import mcp_types as types
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import TypeAdapter, ValidationError

from tool_engine.errors import ConfigurationError, ToolEngineError, ToolExecutionError
from tool_engine.mcp_server.notices import Notices
from tool_engine.mcp_server.rounds import RoundState
from tool_engine.mcp_server.sendable import can_send, make_sendable
from tool_engine.model.checks.nearness import suggest_near
from tool_engine.model.task import TaskHandle

_CAPABILITIES: Final = {
    "elicitation/create": "elicitation",
    "sampling/createMessage": "sampling",
    "roots/list": "roots",
}
"""What a client must be able to do to answer a question of each kind."""
_REQUEST: Final[TypeAdapter[Any]] = TypeAdapter(types.InputRequest)
_ANSWERS: Final[dict[str, type[Any]]] = {
    "elicitation/create": types.ElicitResult,
    "sampling/createMessage": types.CreateMessageResult,
    "roots/list": types.ListRootsResult,
}
_Reader = Callable[[str, Any, Any], dict[str, Any]]
"""Takes a key, a question and an answer; returns the answer, or raises what is wrong with it."""
LACKS: Final = "client_lacks"
"""The key of `error_details` with what a client would have to be able to do."""
_current: ContextVar[ClientRequest | None] = ContextVar("mcp_client_request", default=None)


class _Open(NamedTuple):
    question: Any
    answer: asyncio.Future[dict[str, Any]]


class TaskQuestions:
    """The questions of one task that wait for an answer.

    The client reads them with `tasks/get` and answers with `tasks/update`, in any number of
    requests; the tool waits meanwhile.

    Args:
        read_answer: Checks what a client sends.
    """

    def __init__(self, read_answer: _Reader) -> None:
        self._read_answer = read_answer
        self._open: dict[str, _Open] = {}
        self._used: set[str] = set()

    @property
    def open(self) -> dict[str, Any]:
        """What waits for an answer, by the keys that the client knows."""
        return {key: each.question for key, each in self._open.items()}

    async def ask(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Wait for the answers to some questions, and return each under its key."""
        loop = asyncio.get_running_loop()
        keys = {self._make_key(key): key for key in asked}
        mine = {key: _Open(asked[own], loop.create_future()) for key, own in keys.items()}
        self._open |= mine
        try:
            return {keys[key]: await each.answer for key, each in mine.items()}
        finally:
            for key in mine:
                self._open.pop(key, None)

    def take_answers(self, answers: Mapping[str, Any]) -> None:
        """Take what a client sends; what it was not asked, or has answered, is left out.

        Raises:
            MCPError: An answer is none to its question; then none of them is taken.
        """
        read = {
            key: self._read_answer(key, self._open[key].question, answer)
            for key, answer in answers.items()
            if key in self._open
        }
        for key, answer in read.items():
            self._open.pop(key).answer.set_result(answer)

    def _make_key(self, key: str) -> str:
        """Return a key that the task has not used: an answer is to one question, for ever."""
        made, number = key, 1
        while made in self._used:
            number += 1
            made = f"{key}-{number}"
        self._used.add(made)
        return made


class InputRequiredError(ToolEngineError):
    """A tool needs an answer of the client; the call is repeated with it."""

    error_type = "input_required"


class ClientCannotError(ToolExecutionError):
    """The client cannot answer what a tool asks.

    Args:
        message: What is asked.
        capability: What the client would have to be able to do.
    """

    def __init__(self, message: str, capability: str) -> None:
        super().__init__(message, details={LACKS: capability}, is_final=True)


class ClientRequest:
    """The request of a client that the running tool answers: `find_request()`.

    Clients of 2026-07-28 are not asked while a call runs: `ask` ends the call, the client repeats
    it with the answers, and the tool runs again from its start, where `ask` returns them. So ask
    before anything is changed. A call that has become a task asks its client meanwhile.
    """

    def __init__(
        self,
        ctx: Any,
        params: Any,
        carried: RoundState,
        *,
        principal: str | None,
        approvals: str,
    ) -> None:
        self.ctx = ctx
        """The SDK's context of the request."""
        self.notices = Notices(ctx)
        self.principal = principal
        """Who is behind the request; None: it is not known."""
        self.approvals = approvals
        """Who is asked for consent, as `MCPServer` takes it."""
        self.state: str | None = carried.tool
        """What the tool passed as `state` when it asked; no client can change it."""
        self.asked: list[str] = list(carried.asked)
        """The calls whose consent this client was asked for, by their fingerprints."""
        self.granted: dict[str, str | None] = dict(carried.granted)
        """The calls that were allowed in this round or those before, and by whom."""
        self.waits = 0
        """How many calls wait for an operator now."""
        self.task: TaskHandle | None = None
        """The task that the request has become; None: the client waits for the result itself."""
        self.questions = TaskQuestions(_read_answer)
        """What the task asks of the client."""
        self._is_over = False
        self._carried = carried
        self._answers: dict[str, Any] = {}
        if params.request_state is None or carried.number:
            self._answers.update(params.input_responses or {})
        self._wanted: dict[str, Any] | None = None
        self._lack: str | None = None
        """What the client would have to be able to do."""

    def can(self, capability: str) -> bool:
        """Return True if the client can do `elicitation`, `sampling` or `roots`."""
        if capability not in _CAPABILITIES.values():
            hint = suggest_near(capability, _CAPABILITIES.values())
            raise ConfigurationError(f"there is no capability {capability!r}{hint}")
        declared = self.ctx.session.client_capabilities
        return declared is not None and getattr(declared, capability, None) is not None

    async def elicit(self, key: str, message: str, schema: Mapping[str, Any]) -> dict[str, Any]:
        """Ask the client's person to fill in a form.

        An answer is no proof of a person: a client may have made it up.

        Args:
            key: A name for the question, the same each time the tool runs.
            message: What the person reads.
            schema: A JSON Schema of an object with texts, numbers, switches and enums.

        Returns:
            The answer: `action`, which is `accept`, `decline` or `cancel`, and `content`.

        Raises:
            ClientCannotError: The client cannot show forms.
            InputRequiredError: The call is repeated with the answer; let it pass.
        """
        params = {"message": message, "requestedSchema": dict(schema)}
        answers = await self.ask({key: {"method": "elicitation/create", "params": params}})
        answer: dict[str, Any] = answers[key]
        return answer

    async def ask(
        self, questions: Mapping[str, Mapping[str, Any]], *, state: str | None = None
    ) -> dict[str, Any]:
        """Ask several things at once.

        Args:
            questions: A request as it stands on the wire for each key: its `method`, which is
                `elicitation/create`, `sampling/createMessage` or `roots/list`, and its `params`.
            state: A text that is `state` when the tool runs again; sealed on its way.

        Returns:
            The answer for each key, as it stands on the wire.

        Raises:
            ConfigurationError: A question is none.
            ClientCannotError: The client cannot answer one of them.
            InputRequiredError: The call is repeated with the answers; let it pass.
        """
        if not can_send(state):
            raise ConfigurationError("state must be a text without halves of surrogate pairs")
        sent = make_sendable(dict(questions))
        asked = {key: _check_question(key, question) for key, question in sent.items()}
        for key, question in asked.items():
            capability = _CAPABILITIES[question.method]
            if not self.can(capability):
                self._lack = capability
                text = f"the client cannot answer {key!r}: it has no {capability}"
                raise ClientCannotError(text, capability)
        if self.ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            return {key: await self._ask_now(question) for key, question in asked.items()}
        if asked.keys() <= self._answers.keys():
            return {key: _read_answer(key, asked[key], self._answers[key]) for key in asked}
        if self.task is not None:
            return await self.questions.ask(asked)
        requests = {key: write_wire(each) for key, each in asked.items()}
        self._wanted = {"resultType": "input_required", "inputRequests": requests}
        self._carry_state(tool=state, asked=self.asked, granted=self.granted)
        raise InputRequiredError(f"the client is asked for {', '.join(sorted(asked))}")

    @property
    def is_over(self) -> bool:
        """True if the call has ended: its client hears no more of it."""
        return self._is_over or (self.task is not None and self.task.state.is_final)

    def end(self) -> None:
        """Note that the call has ended."""
        self._is_over = True

    @property
    def wanted(self) -> dict[str, Any] | None:
        """What a client has to answer, as it stands on the wire; None: nothing."""
        return self._wanted

    def forget_answer(self, key: str) -> None:
        """Forget what the client sent for a question that it was not asked."""
        self._answers.pop(key, None)

    def hold(self, call: str) -> None:
        """Let the client come back for a call that goes on without it."""
        self._wanted = {"resultType": "input_required"}
        self._carry_state(held=call)

    def come_back(self, now: ClientRequest) -> None:
        """Go on with what the client asks now."""
        self.ctx, self._wanted = now.ctx, None
        self.notices.move_to(now.ctx)

    def _carry_state(self, **said: Any) -> None:
        server, definition = self._carried.server, self._carried.definition
        text = RoundState(server=server, definition=definition, **said).encode()
        if text is not None and self._wanted is not None:
            self._wanted["requestState"] = text

    def raise_lack(self) -> None:
        """Raise the protocol's own error, if the client could not answer a question."""
        if self._lack is not None and self.ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
            raise make_lack_error(self._lack)

    async def _ask_now(self, question: Any) -> dict[str, Any]:
        answer = await self.ctx.session.send_request(
            question,
            _ANSWERS[question.method],
            metadata=ServerMessageMetadata(related_request_id=self.ctx.request_id),
        )
        return write_wire(answer)


def find_request() -> ClientRequest | None:
    """Return the client's request that the running tool answers; None: no client called it."""
    request = _current.get()
    # A task that outlives its call has no client any more.
    return None if request is None or request.is_over else request


@contextmanager
def answer_request(request: ClientRequest) -> Iterator[None]:
    """Let the tools that run inside find the request."""
    before = _current.set(request)
    try:
        yield
    finally:
        request.end()
        _current.reset(before)


def remember_request(request: ClientRequest) -> None:
    """Let all that begins from here on in this context find the request."""
    _current.set(request)


def make_lack_error(capability: str) -> MCPError:
    """Return the protocol's own error about what a client cannot do."""
    message = f"the client must be able to do {capability}"
    needed: dict[str, Any] = {"requiredCapabilities": {capability: {}}}
    return MCPError(types.MISSING_REQUIRED_CLIENT_CAPABILITY, message, needed)


def _check_question(key: str, question: Mapping[str, Any]) -> Any:
    try:
        return _REQUEST.validate_python(dict(question), by_name=False)
    except (ValidationError, TypeError, ValueError) as error:
        raise ConfigurationError(
            f"the question {key!r} is no request of {', '.join(_CAPABILITIES)}: {error}"
        ) from error


def _read_answer(key: str, question: Any, answer: Any) -> dict[str, Any]:
    kind = _ANSWERS[question.method]
    try:
        return write_wire(kind.model_validate(answer))
    except ValidationError as error:
        text = f"the answer {key!r} is no {kind.__name__}"
        raise MCPError(types.INVALID_PARAMS, text) from error


def write_wire(value: Any) -> dict[str, Any]:
    """Return a value of the SDK as it stands on the wire."""
    written: dict[str, Any] = value.model_dump(by_alias=True, mode="json", exclude_none=True)
    return written
