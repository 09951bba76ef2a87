"""How does one agent call tools, with a history that no other agent shares?"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, Final, Self, TypeAlias

from tool_engine.errors import ConfigurationError, ToolEngineError, UnboundContextError
from tool_engine.events.subscriber import is_being_cancelled
from tool_engine.interfaces.source import ToolSource, find_for_model
from tool_engine.knowledge.entry import VisibleCall, without_values
from tool_engine.knowledge.past_calls import (
    AGENT_CALLER,
    AgentContext,
    CallHistory,
    PastCall,
    read_history,
    record_of_refused,
)
from tool_engine.knowledge.snapshot import take_snapshot
from tool_engine.knowledge.store import ToolKnowledgeStore
from tool_engine.logger import get_logger
from tool_engine.model.call import Refusal, ToolCall, ToolExecutionResult
from tool_engine.model.checks.bounds import check_count
from tool_engine.model.checks.known_fields import KnownArguments, KnownNames
from tool_engine.model.checks.setting_kinds import check_function, check_switch, check_text
from tool_engine.model.context_copy import DEFAULT_TIMEOUT
from tool_engine.model.foreign import ends_caller
from tool_engine.model.json.copying import refuse_copying
from tool_engine.model.json.plain import name_of, read_plain
from tool_engine.model.outcome import ErrorType, find_error_type
from tool_engine.model.progress import ToolProgress
from tool_engine.model.record import RecordQuery
from tool_engine.model.refusal import make_refused
from tool_engine.model.tool import Tool
from tool_engine.protocols.parallel_calls import count_workers
from tool_engine.protocols.shown_tools import ShownTools
from tool_engine.redaction import kind_of, secrets_if_known, shorten_words, trace_of
from tool_engine.sources.foreign import check_source

BatchCall: TypeAlias = tuple[str, Mapping[str, Any]] | Mapping[str, Any] | ToolCall
"""One call of a batch: `(tool_name, params)`, `{"tool_name": .., "params": ..}` or a `ToolCall`."""

_KEYS: Final = {
    frozenset(keys): keys
    for keys in (
        ("tool_name", "params"),
        ("tool_name", "arguments"),
        ("name", "params"),
        ("name", "arguments"),
    )
}

ResultCallback: TypeAlias = Callable[[ToolExecutionResult], Awaitable[None] | None]
"""Called with each result, after it is in the history."""

_LEAST: Final = 1.0
"""Seconds that a callback has at least, however late its call was."""
_log: Final = get_logger(__name__)


def parts_of(call: object) -> tuple[object, object]:
    """Return the tool's name and the arguments of one item, as far as it has them."""
    name: object = None
    params: object = None
    plain = call if type(call) is ToolCall else read_plain(call)
    if type(plain) is ToolCall:
        name, params = plain.tool_name, plain.arguments
    elif type(plain) is list and len(plain) == 2:
        name, params = plain
    elif type(plain) is dict and frozenset(plain) in _KEYS:
        name, params = (plain[key] for key in _KEYS[frozenset(plain)])
    return name, {} if params is None else params


@refuse_copying("pass it on as it is, or make another one for the same engine")
class ToolSubAgent(KnownArguments, KnownNames):
    """Calls tools for one agent and remembers how the calls ended.

    Every call gets a context of its own, so that no call sees another one's variables, and no
    sub-agent sees another one's history.

    Args:
        agent_id: Who calls; the `caller_id` of events and records.
        tool_engine: The engine that runs the tools.
        parent_agent_id: The agent on whose behalf it calls.
        on_result_callback: Called with each result, after the history has it; sync or async. What
            it raises is logged and changes nothing. An async one that has not ended by the deadline
            of the call, or within a second where that is later, is cancelled, and this is logged.
        conversation_id: The conversation that the calls belong to.
        max_history: The most calls whose details are kept in memory; the totals count all.
        tools: The names of the tools offered to its model from the start; None: all that are
            enabled. With a search tool only, a model finds the others itself.
        max_found_tools: The most tools offered to its model because its own calls of a tool
            with the handler `search_tools` found them; the longest unused ones go first.

    Raises:
        ConfigurationError: An empty agent id, no engine, a limit of less than 1, no list of tool
            names, another argument of the wrong kind, or one that it does not take.

    Example:
        >>> agent = ToolSubAgent("agent_1", engine, parent_agent_id="planner")
        >>> await agent.execute("echo", {"message": "hello"})
        >>> agent.get_execution_summary()["success_rate"]
        100.0
    """

    def __init__(
        self,
        agent_id: str,
        tool_engine: ToolSource,
        parent_agent_id: str | None = None,
        on_result_callback: ResultCallback | None = None,
        *,
        conversation_id: str | None = None,
        max_history: int = 1000,
        tools: Iterable[str] | None = None,
        max_found_tools: int = 20,
    ) -> None:
        _check_name("agent_id", agent_id)
        check_count("max_history", max_history, minimum=1)
        check_count("max_found_tools", max_found_tools, minimum=1)
        check_text("parent_agent_id", parent_agent_id)
        check_text("conversation_id", conversation_id)
        if on_result_callback is not None:
            check_function("on_result_callback", on_result_callback, "of a result")
        self.agent_id = agent_id
        self.parent_agent_id = parent_agent_id
        self.conversation_id = conversation_id
        self._source = check_source(tool_engine)
        self._callback = on_result_callback
        self._shown = ShownTools(self._source, tools, max_found_tools)
        self._history = CallHistory(max_history)

    @classmethod
    async def restore(
        cls,
        agent_id: str,
        tool_engine: ToolSource,
        parent_agent_id: str | None = None,
        on_result_callback: ResultCallback | None = None,
        *,
        conversation_id: str | None = None,
        since: datetime | None = None,
        max_history: int = 1000,
        tools: Iterable[str] | None = None,
        max_found_tools: int = 20,
    ) -> Self:
        """Return a sub-agent that continues an earlier one of the same id.

        The earlier one may have run in another process.

        Its history is read from the records in `tool_engine.store`; its outputs have their secrets
        hidden and, where they are long, their beginning. Where the store has let records go,
        the summary has the key `incomplete`, which says why.

        Args:
            agent_id: Whose calls to read: those with this `caller_id`.
            tool_engine: The engine that runs the tools, and has the store.
            parent_agent_id: As for a new sub-agent.
            on_result_callback: Called for the calls to come.
            conversation_id: Only the calls of this conversation. None: all, and the sub-agent goes
                on with the conversation of its newest call.
            since: Only calls that ended at this time or later; with a time zone.
            max_history: The most calls whose details are read; the totals count all.
            tools: As for a new sub-agent.
            max_found_tools: As for a new sub-agent.

        Raises:
            ConfigurationError: As for a new sub-agent, a time without a zone, or no records.
            RecordsUnavailableError: The database of the records does not answer.

        Example:
            >>> agent = await ToolSubAgent.restore("agent_1", engine)
        """
        agent = cls(
            agent_id,
            tool_engine,
            parent_agent_id,
            on_result_callback,
            conversation_id=conversation_id,
            max_history=max_history,
            tools=tools,
            max_found_tools=max_found_tools,
        )
        query = RecordQuery(caller_id=agent_id, conversation_id=conversation_id, start=since)
        store = agent._source.store
        if store is None:
            raise ConfigurationError(f"{tool_engine!r} has no store with the records of its calls")
        agent._history, records = await read_history(store, query, max_history)
        for result in agent.history:
            agent._shown.learn(agent.get(result.tool_name), result)
        if conversation_id is None and records:
            agent.conversation_id = records[-1].conversation_id
        return agent

    def __repr__(self) -> str:
        return (
            f"<ToolSubAgent {self.agent_id!r}, {self._history.total} calls, "
            f"{self._history.successful} successful>"
        )

    @property
    def history(self) -> list[ToolExecutionResult]:
        """The newest results, oldest first; a new list each time."""
        return self._history.results

    def get(self, tool_name: str) -> Tool | None:
        """Return the engine's tool of this name or alias, or None."""
        return self._source.get(tool_name)

    def explain_missing(self, tool_name: str) -> Refusal:
        """Return how a call of a tool ends that is not there for its model."""
        return self._source.explain_missing(tool_name)

    @property
    def controller(self) -> Any:
        """The controller that admits the calls; None: not exactly one."""
        return self._source.controller

    async def execute(
        self,
        tool_name: str,
        params: Mapping[str, Any] | None = None,
        timeout: float = DEFAULT_TIMEOUT,  # noqa: ASYNC109 - the documented signature
        *,
        on_progress: Callable[[ToolProgress], object] | None = None,
    ) -> ToolExecutionResult:
        """Run one tool, as its model may: not one that is for code only.

        Args:
            tool_name: The tool to run.
            params: Its arguments.
            timeout: Seconds that it may run; left out, the tool's own timeout applies.
            on_progress: As for `ToolEngine.execute`.

        Returns:
            How the call ended; a fault of the tool is a result too.

        Raises:
            ConfigurationError: A timeout that is not a positive, finite number, or `on_progress` is
                no plain function.
            asyncio.CancelledError: The caller was cancelled; the history says `cancelled`.
        """
        context = AgentContext(
            caller_id=self.agent_id,
            caller_type=AGENT_CALLER,
            conversation_id=self.conversation_id,
            timeout=timeout,
            on_progress=on_progress,
        )
        # What is no mapping goes on as it is: the engine's finding says what is wrong with it.
        arguments = _copy_params(params)
        is_name = isinstance(tool_name, str)
        tool = find_for_model(self._source, tool_name) if is_name else None
        kept = _keep_arguments(arguments, tool)
        if tool is None and is_name and self._source.is_hidden(tool_name):
            missing = self._source.explain_missing(tool_name)
            result = self._source.refuse(tool_name, {}, context, missing)
            return await self._finish_call(PastCall(result, kept, tool))
        try:
            result = await self._source.execute(tool_name, arguments, context)
        except asyncio.CancelledError:
            cancelled = context.failure or _make_failure(
                tool_name, ErrorType.CANCELLED.value, "the caller cancelled the call"
            )
            self._remember_call(PastCall(cancelled, kept, tool))
            raise
        return await self._finish_call(PastCall(result, kept, tool), _find_limit(timeout, tool))

    async def execute_batch(
        self,
        calls: Iterable[BatchCall],
        parallel: bool = False,
        max_parallel: int | None = None,
    ) -> list[ToolExecutionResult]:
        """Run several calls, one after the other unless `parallel`.

        Args:
            calls: The calls. One that is malformed becomes a failed result; the others run.
            parallel: Runs them at the same time.
            max_parallel: The most that run at the same time; None: as many as the engine's limits
                let run, so that none is refused because of the others.

        Returns:
            One result per call, in the order of `calls`, however each ended.

        Raises:
            ConfigurationError: `calls` is not a list of calls, `parallel` is neither True nor
                False, or `max_parallel` is less than 1.
            asyncio.CancelledError: The caller was cancelled. What ran is cancelled, what was
                finished is in the history.
        """
        if isinstance(calls, str | bytes | Mapping) or not isinstance(calls, Iterable):
            raise ConfigurationError(
                f"calls must be a list of (tool_name, params), got {type(calls).__name__}"
            )
        check_switch("parallel", parallel)
        if max_parallel is not None:
            check_count("max_parallel", max_parallel, minimum=1)
        listed = list(calls)
        names = [parts_of(call)[0] for call in listed]
        workers = count_workers(self._source, names, max_parallel) if parallel else 1
        results: dict[int, ToolExecutionResult] = {}
        pending = iter(enumerate(listed))
        if workers <= 1:
            await self._run_pending(pending, results)
        else:
            async with asyncio.TaskGroup() as group:
                for _ in range(workers):
                    group.create_task(self._run_pending(pending, results))
        return [results[position] for position in range(len(listed))]

    def get_execution_summary(self) -> dict[str, Any]:
        """Return totals of all calls and details of the newest, secrets hidden.

        Returns:
            `agent_id`, `parent_agent_id`, `total_calls`, `successful_calls`, `failed_calls`,
            `success_rate` (percent), `total_execution_time` and `avg_execution_time` (seconds, four
            decimals), `tool_usage` (calls per tool), `errors` (the failed ones of `call_details`)
            and `call_details`, oldest first. After `restore` also `incomplete`, where older calls
            may be missing: why.
        """
        return {
            "agent_id": self.agent_id,
            "parent_agent_id": self.parent_agent_id,
            **self._history.summary(),
        }

    def get_brief_summary(self) -> dict[str, Any]:
        """Return the short summary for a front end."""
        return {"agent_id": self.agent_id, **self._history.brief()}

    @property
    def enabled_tools(self) -> list[str]:
        """The tools offered to its model now: first ones, then found ones."""
        return [tool.name for tool in self._shown.tools()]

    def tool_definitions(self, format_name: str) -> list[dict[str, Any]]:
        """Return the definitions of `enabled_tools` for the next request to the model.

        Args:
            format_name: `openai`, `openai_responses`, `anthropic`, `gemini` or `mcp`.

        Raises:
            ConfigurationError: The format is unknown.
            ToolNotFoundError: One of the first is not there any more.
        """
        return self._shown.definitions(format_name)

    def clear_history(self) -> None:
        """Forget every call; totals start at 0, and records stay."""
        self._history.clear()

    async def _run_pending(
        self, pending: Iterator[tuple[int, object]], results: dict[int, ToolExecutionResult]
    ) -> None:
        for position, call in pending:
            results[position] = await self._run_one(position, call)

    async def _run_one(self, position: int, call: object) -> ToolExecutionResult:
        """Run one call of a batch; only the caller's cancellation escapes."""
        tool_name, params = parts_of(call)
        if not isinstance(tool_name, str) or not isinstance(params, Mapping):
            refused = _make_failure(
                tool_name if isinstance(tool_name, str) else "",
                ErrorType.VALIDATION_ERROR.value,
                f"item {position} of the batch must be (tool_name, params), "
                f"{{'tool_name': ..., 'params': ...}} or a ToolCall, got {name_of(call)}",
            )
            return await self._refuse_call(PastCall(refused, take_snapshot(call), None))
        try:
            return await self.execute(tool_name, params)
        except asyncio.CancelledError:
            if is_being_cancelled():
                raise
            # The tool was cancelled, not this task: `execute` remembered it as its last step.
            return self._history.newest
        except BaseException as error:  # one failure must not lose the other results
            if ends_caller(error):
                raise
            tool = self._source.get(tool_name)
            secrets = secrets_if_known(tool, params)
            said = shorten_words(str(error), secrets) or kind_of(error)
            failed = _make_failure(tool_name, find_error_type(error).value, said)
            past = PastCall(failed, _keep_arguments(params, tool), tool)
            if isinstance(error, UnboundContextError):
                # No call was made: the one that would have made it has ended.
                return await self._finish_call(past)
            return await self._refuse_call(past)

    async def _refuse_call(self, past: PastCall) -> ToolExecutionResult:
        """Return a failed result for a call without the engine's."""
        store = self._source.store
        if isinstance(store, ToolKnowledgeStore):
            store.add(record_of_refused(past, self.agent_id, self.conversation_id))
        return await self._finish_call(past)

    async def _finish_call(
        self, past: PastCall, limit: float = DEFAULT_TIMEOUT
    ) -> ToolExecutionResult:
        self._remember_call(past)
        if self._callback is not None:
            seconds = max(_LEAST, limit - past.result.execution_time)
            await self._call_back(self._callback, past, seconds)
        return past.result

    async def _call_back(self, callback: ResultCallback, past: PastCall, seconds: float) -> None:
        clock = asyncio.timeout(seconds)
        try:
            returned = callback(past.result)
            if inspect.isawaitable(returned):
                async with clock:
                    await returned
        except TimeoutError as error:
            late = f"the callback had not ended after {seconds:g} s, and was cancelled"
            self._log_failure(past, ToolEngineError(late) if clock.expired() else error)
        except asyncio.CancelledError as error:
            if is_being_cancelled():
                raise
            self._log_failure(past, error)
        except BaseException as error:  # a callback must not change how a call ended
            if ends_caller(error):
                raise
            self._log_failure(past, error)

    def _remember_call(self, past: PastCall) -> None:
        self._shown.learn(past.tool, past.result)
        self._history.add(past)

    def _log_failure(self, past: PastCall, error: BaseException) -> None:
        result, visible = past.result, VisibleCall(past.params, past.tool)
        _log.warning(
            "result_callback_failed",
            agent_id=self.agent_id,
            tool_name=result.tool_name,
            call_id=result.call_id,
            error=trace_of(error, visible.secrets),
        )


def _find_limit(timeout: float | None, tool: Tool | None) -> float:
    """Return a call's seconds: the caller's, the tool's, or the default."""
    if timeout is not DEFAULT_TIMEOUT and timeout is not None:
        return timeout
    own = None if tool is None else tool.timeout
    return DEFAULT_TIMEOUT if own is None else own


def _check_name(name: str, value: object) -> None:
    if not isinstance(value, str) or not value:
        raise ConfigurationError(f"{name} must be a non-empty string, got {value!r}")


def _copy_params(params: object) -> Any:
    plain = {} if params is None else read_plain(params)
    return dict(plain) if type(plain) is dict else plain


def _keep_arguments(params: object, tool: Tool | None) -> bytes:
    """Return a snapshot of arguments; of no tool only their names, as in its record."""
    kept = take_snapshot(params)
    return without_values(kept) if tool is None else kept


def _make_failure(tool_name: str, error_type: str, message: str) -> ToolExecutionResult:
    return make_refused(tool_name, Refusal(error_type, message))
