"""How does a user's message lead to an answer, over several rounds of calls?

Wherever a turn breaks off, the conversation stays valid for the model's provider: see `history`.
Only this task changes it, so that nothing is left to repair later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any, Final, Protocol

from tool_engine.agent.answer import AgentAnswer, StopReason
from tool_engine.agent.events import AgentEventType
from tool_engine.agent.history import History, result_messages
from tool_engine.agent.listening import Listeners
from tool_engine.agent.reply_request import Asking
from tool_engine.agent.transcript import Transcript
from tool_engine.agent.words import write_sentence
from tool_engine.errors import ChatModelError, SessionError
from tool_engine.interfaces import ChatModel
from tool_engine.model.call import Refusal, ToolCall, ToolExecutionResult
from tool_engine.model.chat import ChatRequest
from tool_engine.model.foreign import ends_caller
from tool_engine.model.outcome import ErrorType
from tool_engine.model.progress import ToolProgress
from tool_engine.model.refusal import make_refused
from tool_engine.model.reply import ParsedReply, ReplyFinding
from tool_engine.protocols.cycle import ToolCallCycleResult
from tool_engine.protocols.large_replies import read_in_time
from tool_engine.protocols.openai.finish_reasons import find_meaning
from tool_engine.protocols.reply_builder import Ending
from tool_engine.protocols.result_content import REQUEST_ID, text_of
from tool_engine.session.repetition import Advice, fingerprint_of
from tool_engine.session.session import ToolSession

_RECOVERED: Final = frozenset({StopReason.TRUNCATED, StopReason.UNREADABLE})
"""Problems that the model may correct once in a turn."""
_MAY_HAVE_RUN: Final = (None, "timeout", "cancelled", "execution_error", "result_rejected")
"""The `error_type` of a call that reached its tool, or may have."""


_CALL_SIZE: Final = 200
"""What the comparison of one call counts for, beside its texts."""


class Conversation(Protocol):
    session: ToolSession
    history: History
    record: Transcript

    @property
    def model(self) -> ChatModel:
        """The model that answers."""

    def request(self, *, may_call: bool) -> ChatRequest:
        """Return the model's next request."""


class Turn:
    """One turn of a conversation."""

    def __init__(self, conversation: Conversation, listeners: Listeners) -> None:
        self._listeners = listeners
        self._session = conversation.session
        self._model = conversation.model
        self._history = conversation.history
        self._transcript = conversation.record
        self._conversation = conversation
        self._emit = listeners.emit
        self._asking: Asking | None = None
        self._findings: list[ReplyFinding] = []
        self._text = ""
        self._begun = ""
        self._is_refused = False
        self._ran: list[str] = []
        """Calls that reached their tools, named to the model if the turn is taken out."""
        self._news = 0
        """How many ended background calls the turn's first message reports."""
        self._last: StopReason | None = None
        """Why the next reply is the last one of the turn."""
        self._has_recovered = False
        self._clock: asyncio.Timeout | None = None

    async def run(self, text: str) -> AgentAnswer:
        """Run the turn, from the user's message to the answer.

        Raises:
            ChatModelError: The model gave no reply.
            SessionError: Another loop runs a turn of the session.
            asyncio.CancelledError: The caller gave up waiting.
        """
        session, meter = self._session, self._session.meter
        if meter.is_in_turn:
            raise SessionError(
                f"the session {session.session_id!r} is in a turn of another loop, and its bounds "
                "are those of one turn: wait for its end, or give each loop a session of its own"
            )
        news = session.take_news()
        self._history.begin("\n\n".join([*news, text]))
        meter.begin_turn()
        # A user may ask for the same thing again: that does not count as a repetition.
        session.guard.restore({"turns": []})
        self._news = len(news)
        for each in news:
            self._transcript.add("loop", each)
        self._transcript.add("user", text)
        clock = self._clock = asyncio.timeout(meter.seconds_left())
        try:
            async with clock:
                reason = await self._run_rounds()
        except ChatModelError as error:
            self._is_refused = error.is_refusal
            raise
        except TimeoutError:
            if not clock.expired():
                raise
            reason = StopReason.MAX_SECONDS
            self._text = self._begun + ("" if self._asking is None else self._asking.said)
        finally:
            self._break_off()
            meter.end_turn()
            if not self._history.is_said:
                # The turn was taken back, and the news that it reported with it.
                session.calls.news[:0] = news
        return self._make_answer(reason)

    async def _run_rounds(self) -> StopReason:
        while True:
            reason = self._begin_round()
            if reason is not None:
                return reason
            reply = await self._ask_model()
            reason = await self._take_reply(reply)
            if reason is not None:
                return reason

    def _begin_round(self) -> StopReason | None:
        """Count a round; at a bound, allow one last answer in time."""
        meter = self._session.meter
        if self._last is None:
            refusal = meter.begin_round()
            if refusal is None:
                return None
            self._last = StopReason((refusal.details or {})["reason"])
            is_first = not self._history.is_said
            if self._last is StopReason.MAX_SECONDS or (
                self._last is StopReason.MAX_TOKENS and is_first
            ):
                return self._last
            self._add_note("bound", reason=self._last.value)
        meter.count_round()
        return None

    async def _ask_model(self) -> ParsedReply:
        self._emit(AgentEventType.ROUND_STARTED)
        asking = self._asking = Asking(
            self._model, self._emit, self._listeners.known_secrets, self._listeners.find_tool
        )
        request = self._conversation.request(may_call=self._last is None)
        reply = await asking.ask(request)
        self._asking = None
        before = self._session.usage().total_tokens
        self._session.meter.add_tokens(reply.usage)
        usage = self._session.usage()
        self._emit(AgentEventType.USAGE, usage=usage)
        self._findings += reply.findings
        if usage.total_tokens == before and self._session.config.max_tokens is not None:
            self._find_uncounted()
        self._transcript.add_reply(reply)
        return reply

    def _find_uncounted(self) -> None:
        """Report a bound that cannot be enforced, once in a turn."""
        if any(each.error_type == "no_usage" for each in self._findings):
            return
        message = (
            "the model told nothing of its tokens, so that max_tokens cannot hold: "
            "bound the turn with max_iterations, max_calls or max_seconds"
        )
        finding = ReplyFinding(error_type="no_usage", message=message)
        self._findings.append(finding)
        self._emit(AgentEventType.FINDING, finding=finding)

    async def _take_reply(self, reply: ParsedReply) -> StopReason | None:
        """Process a reply; return why the turn ends, or None."""
        self._text = self._begun + reply.text
        self._begun = self._text if reply.is_paused else ""
        trouble = _find_trouble(reply)
        self._is_refused = trouble is StopReason.REFUSED
        if reply.calls:
            return await self._take_calls(reply, trouble)
        if self._is_refused:
            return trouble
        if reply.is_paused:
            self._history.pause(reply.message)
            return self._last
        self._history.add_reply(reply.message)
        if trouble is None:
            return self._last or StopReason.COMPLETED
        if trouble not in _RECOVERED or self._has_recovered or self._last is not None:
            return trouble
        self._has_recovered = True
        if trouble is StopReason.TRUNCATED:
            self._add_note("cut")
        else:
            wrong = [each.message for each in reply.findings if each.level == "error"]
            self._add_note("unreadable", detail="; ".join(wrong)[:500])
        return None

    async def _take_calls(
        self, reply: ParsedReply, trouble: StopReason | None
    ) -> StopReason | None:
        over = self._find_over(trouble)
        cycle = await self._run_calls(reply)
        self._findings += cycle.reply.findings[len(reply.findings) :]
        if not self._keep_reply(reply, cycle.execution_results, cycle.formatted):
            return StopReason.UNREADABLE
        if over is not None:
            return over
        self._has_recovered = self._has_recovered or trouble is StopReason.TRUNCATED
        guard = self._session.guard
        results = cycle.execution_results
        # Beside the event loop where there are very many.
        size = len(results) * _CALL_SIZE
        advice = guard.note(await read_in_time(_compare_by, reply.calls, results, before=size))
        if advice is Advice.HINT:
            self._add_note("repeating_hint")
        elif advice is Advice.STOP:
            self._last = StopReason.REPEATING
            self._add_note("repeating", count=guard.most)
        return None

    def _find_over(self, trouble: StopReason | None) -> StopReason | None:
        """Return why the turn ends with this reply, before any call runs."""
        over: StopReason
        if trouble is StopReason.REFUSED:
            over, message = trouble, "refused"
        elif self._last is not None:
            over, message = self._last, "over"
        elif trouble is StopReason.TRUNCATED and self._has_recovered:
            over, message = trouble, "cut_again"
        else:
            return None
        # A call whose result is never read must not run.
        self._session.meter.stop_calls(over.value, f"{self._say_words(message)} ({over.value})")
        return over

    async def _run_calls(self, reply: ParsedReply) -> ToolCallCycleResult:
        """Run the calls; each gets its result in the history, whatever happens."""
        ended: dict[str, ToolExecutionResult] = {}

        def note(call: ToolCall, result: ToolExecutionResult) -> None:
            ended[call.call_id] = result
            self._emit_result(call, result)

        for call in reply.calls:
            # A protocol need not report the end of each call while it reads a reply.
            self._listeners.note_call(call.tool_name, call.arguments)
        try:
            hear = partial(self._emit_progress, asyncio.get_running_loop())
            return await self._session.process(
                reply, self._model.protocol, on_result=note, on_progress=hear
            )
        except BaseException:
            for call in reply.calls:
                if call.call_id not in ended:
                    note(call, self._make_cancelled(call))
            results = [ended[call.call_id] for call in reply.calls]
            self._keep_reply(reply, results, None)
            raise

    def _keep_reply(
        self, reply: ParsedReply, results: Sequence[ToolExecutionResult], formatted: Any
    ) -> bool:
        """Put a reply and its results into the history, both or neither."""
        self._transcript.add_results(reply.calls, results)
        if self._is_refused:
            return True
        self._ran += [each.tool_name for each in results if each.error_type in _MAY_HAVE_RUN]
        message, calls = self._history.with_new_ids(reply.message, reply.calls)
        if calls is not reply.calls:
            formatted = None
        try:
            answers = result_messages(self._model.protocol, results, calls, formatted)
        except BaseException as error:  # a foreign protocol; the cycle has logged it
            if ends_caller(error):
                raise
            self._history.add_said(f"{reply.text}\n\n{self._say_words('interrupted')}".strip())
            return False
        self._history.add_calls([*message, *answers])
        return True

    def _make_cancelled(self, call: ToolCall) -> ToolExecutionResult:
        is_late = self._clock is not None and self._clock.expired()
        refusal = Refusal(
            ErrorType.CANCELLED.value, self._say_words("late" if is_late else "cancelled")
        )
        return make_refused(call.tool_name, refusal, {REQUEST_ID: call.call_id})

    def _emit_result(self, call: ToolCall, result: ToolExecutionResult) -> None:
        self._emit(
            AgentEventType.TOOL_RESULT,
            tool_call_id=call.call_id,
            tool_call_name=call.tool_name,
            result=result,
        )

    def _emit_progress(
        self, loop: asyncio.AbstractEventLoop, call: ToolCall, progress: ToolProgress
    ) -> None:
        """Emit how far a call has come; the engine's loop may be another one than the turn's."""
        emit = partial(
            self._emit,
            AgentEventType.TOOL_PROGRESS,
            tool_call_id=call.call_id,
            tool_call_name=call.tool_name,
            progress=progress,
        )
        if asyncio.get_running_loop() is loop:
            emit()
        else:
            loop.call_soon_threadsafe(emit)

    def _break_off(self) -> None:
        said = "" if self._asking is None else self._asking.said
        if said:
            self._transcript.add("assistant", said, isInterrupted=True)
        if self._is_refused:
            self._added = self._history.take_back(self._left_out(), self._say_words("interrupted"))
        else:
            self._added = self._history.break_off(said, self._say_words("interrupted"))

    def _left_out(self) -> str:
        """Describe a removed turn to the model; empty if no call ran."""
        if not self._ran and not self._news:
            return ""
        ran = ", ".join(dict.fromkeys(self._ran)) or "-"
        return self._say_words("left_out", ran=ran, news=self._news)

    def _make_answer(self, reason: StopReason) -> AgentAnswer:
        return AgentAnswer(
            text=self._text,
            stop_reason=reason,
            usage=self._session.usage(),
            tool_usage_summary=self._transcript.summary(self._session.session_id).to_brief(),
            messages=self._added,
            findings=list(self._findings),
        )

    def _add_note(self, key: str, **values: object) -> None:
        text = self._say_words(key, **values)
        self._history.ask(text)
        self._transcript.add("loop", text)

    def _say_words(self, key: str, **values: object) -> str:
        return write_sentence(self._session.config.language, key, **values)


def _compare_by(calls: Sequence[ToolCall], results: Sequence[ToolExecutionResult]) -> str | None:
    """Return by what a turn is compared with earlier ones."""
    ended = zip(calls, results, strict=True)
    return fingerprint_of(
        (call.tool_name, _asked_with(call), _whole_text(result)) for call, result in ended
    )


def _asked_with(call: ToolCall) -> dict[str, Any]:
    return call.arguments if call.is_runnable else {"raw": call.raw}


def _whole_text(result: ToolExecutionResult) -> str:
    """Return the whole text: shortened ones name a new variable each time."""
    return getattr(result, "formatted_text", "") or text_of(result)


def _is_finished(reply: ParsedReply) -> bool:
    reason = reply.stop_reason
    return reason is not None and find_meaning(reason).ending is Ending.FINISHED


def _find_trouble(reply: ParsedReply) -> StopReason | None:
    kinds = {each.error_type for each in reply.findings}
    if reply.refusal is not None or "refusal" in kinds:
        return StopReason.REFUSED
    is_cut = "truncated" in kinds and not reply.is_paused
    is_cut = is_cut or any(not call.complete for call in reply.calls)
    # A call that the model closed too early hit no limit: its own result reports the fault.
    if is_cut and not (reply.calls and _is_finished(reply)):
        return StopReason.TRUNCATED
    if reply.calls or reply.text.strip():
        return None
    is_broken = any(each.level == "error" for each in reply.findings)
    return StopReason.UNREADABLE if is_broken else StopReason.EMPTY
