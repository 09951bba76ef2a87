"""What does a session's model read of a call that has ended, and what is kept of it?

consent to the result -> variables -> text, and where all that the model reads of it came from: a
result, and also what a failed call says, which is in no variable and foreign text all the same.
"""

from __future__ import annotations

from functools import partial
from math import inf
from typing import Any, Final

import msgspec

from tool_engine.model.approval import ApprovalRequest
from tool_engine.model.call import Refusal, ToolExecutionResult
from tool_engine.model.outcome import ErrorType
from tool_engine.model.result import ResultShow
from tool_engine.model.tool import Tool
from tool_engine.output.shaping import SHORT, is_quick
from tool_engine.session.deferral import Deferred, finish_result, note_deferred
from tool_engine.session.formatting import data_of
from tool_engine.session.narrowing import find_limit, find_replies
from tool_engine.session.parts import SessionParts
from tool_engine.session.prompt.skills import READING
from tool_engine.session.reading.presentation import (
    WHOLE,
    Presentation,
    Presented,
    present_in_time,
    present_result,
    with_limit,
)
from tool_engine.session.reading.result import (
    SessionResult,
    UnreadTexts,
    find_show,
    hide_result,
    least_shown,
    make_session_result,
    make_short_result,
    may_present_later,
    withhold_result,
)
from tool_engine.session.scope import Called, SessionScope
from tool_engine.session.toolbox.standing import Placed
from tool_engine.session.variables.call_variables import (
    NamesOfCall,
    PackedCall,
    keep_call_in_time,
    keep_packed,
    name_variables,
    pack_call,
    share_packed,
    unpack_output,
)
from tool_engine.session.variables.labels import OWN_WORDS, find_result_labels
from tool_engine.session.variables.references import Expanded
from tool_engine.session.variables.variable_definitions import WRITE_VAR
from tool_engine.sources.identity import engine_of, source_of
from tool_engine.sources.naming import refusal_named

REFUSED: Final = frozenset(
    kind.value
    for kind in (
        ErrorType.TOOL_NOT_FOUND,
        ErrorType.EXECUTION_REJECTED,
        ErrorType.APPROVAL_REQUIRED,
        ErrorType.REJECTED,
        ErrorType.LIMIT_REACHED,
    )
)
"""Error types of refused calls: the refusal is all that there is to read."""
_NOT_ADMITTED: Final = frozenset(
    kind.value
    for kind in (
        ErrorType.QUEUE_FULL,
        ErrorType.QUEUE_TIMEOUT,
        ErrorType.RATE_LIMITED,
        ErrorType.CIRCUIT_OPEN,
        ErrorType.REJECTED,
    )
)
"""Error types whose messages may name an argument, as the key of its line."""
_ENGINES_WORDS: Final = (
    REFUSED
    | _NOT_ADMITTED
    | {
        kind.value
        for kind in (
            ErrorType.EXECUTOR_NOT_FOUND,
            ErrorType.TOOL_QUARANTINED,
            ErrorType.CANCELLED,
            ErrorType.ENGINE_CLOSED,
        )
    }
)
"""Error types whose messages hold nothing of a tool's content."""
_NO_LABELS: Final = frozenset[str]()
_FULL: Final = ResultShow.FULL.value


class Ended(msgspec.Struct, frozen=True, eq=False):
    """A call that has ended."""

    tool: Tool
    """The tool as the conversation shows it."""
    result: ToolExecutionResult
    put_in: frozenset[str]
    """Labels of the content that was put into the arguments."""
    labels: frozenset[str]
    """Labels of its result."""
    has_begun: bool = True
    """Whether it got further than its validation, whose findings quote arguments."""


class ResultKeeper:
    """Keep ended calls, and make what a session's model reads of them."""

    def __init__(self, parts: SessionParts) -> None:
        self._toolbox = parts.tools.toolbox
        self._caller = parts.caller
        self._presentations = parts.presentations
        self._variables = parts.variables
        self._read_labels = parts.read_labels
        self._gate = parts.gate
        self._policy = parts.policy
        self._results = parts.results
        self._deferred = parts.deferred
        self.number = 0
        """How many calls have ended."""
        self._of_keyed: frozenset[str] = frozenset()
        """The labels of what was put into calls of tools whose calls stand in each other's way by
        their arguments."""

    def note_put_in(self, tool: Tool, scope: SessionScope) -> None:
        """Note what is put into a call which others may be refused for, by their arguments."""
        if scope.expanded.variables and _is_keyed_by_arguments(tool):
            self._of_keyed |= scope.labels

    async def finish(
        self,
        tool_name: str,
        placed: Placed | None,
        params: Any,
        expanded: Expanded,
        result: ToolExecutionResult,
        scope: SessionScope | None = None,
    ) -> SessionResult:
        """Turn a finished call into a session result."""
        self.number += 1
        tool, names = None if placed is None else placed.tool, None
        presentation = self._presentations.get(tool_name, WHOLE)
        is_kept = presentation.is_kept and result.error_type not in REFUSED
        if is_kept and placed is not None and scope is not None and tool_name not in READING:
            # What a model reads of its own variables is in them already.
            names = name_variables(tool_name, self.number, self._variables)
        arguments = expanded.params if isinstance(expanded.params, dict) else {}
        called = None if scope is None else scope.called
        limit = (
            called.limit
            if called is not None and presentation is WHOLE and not find_replies()
            else self._find_limit(tool_name, tool, presentation)
        )
        packed = None
        if names is not None and tool is not None:
            find_packed = None if scope is None else scope.find_packed
            has_secrets = None if called is None else called.has_secrets
            packed = pack_call(tool, arguments, result, find_packed, has_secrets=has_secrets)
        variable, read = None if names is None else names.result, None
        if presentation is WHOLE:
            read = self._read_at_once(result, tool_name, params, limit, packed, variable)
        is_short = None if packed is None else True
        if read is None:
            is_short = is_short or _is_short(result, scope)
            # Functions in code read what the tool ran with, defaults filled in.
            filled = {} if scope is None or presentation is WHOLE else scope.params
            args = with_limit({**arguments, **filled}, params)
            how = variable, is_short, args, tool, presentation, limit
            read = await self._read_in_time(result, tool_name, *how)
        ended = read, tool, names, arguments, packed, result, scope, is_short
        refusal = None
        if placed is not None and result.error_type not in REFUSED:
            is_asked = scope is not None and (
                scope.asks or (scope.asks_on_error and not result.is_success)
            )
            ran = placed.tool, arguments
            if scope is not None and scope.tool is not None:
                # Rules are about the engine's tool, and what it ran with.
                ran = scope.tool, scope.params
            is_free = scope is not None and scope.is_still_free(ran[0])
            is_free = is_free or (ran[0].permission is None and self._policy.is_silent())
            if is_asked or not (is_free or self._gate.is_readable(*ran, not result.is_success)):
                refusal = await self._review_result(placed, *ran, read, is_asked=is_asked)
            token = None if refusal is None else (refusal.details or {}).get("approval_token")
            if token is not None:
                rest = partial(self._keep_result, *ended)
                book = self._gate.book
                note_deferred(self._deferred, book, token, scope, placed.name, rest)
        return await self._keep_result(*ended, refusal)

    def finish_plainly(
        self, called: Called, result: ToolExecutionResult, scope: SessionScope
    ) -> SessionResult | None:
        """Do the same as `finish` for a call to which no special rule applies.

        None: one does, or too much came of it, and nothing was done.
        """
        tool, name, ran = called.placed.tool, called.placed.name, scope.tool
        params, store = scope.expanded.params, self._variables
        if (
            ran is None
            or scope.asks
            or not result.is_success
            or name in self._presentations
            or find_replies()
            or not scope.is_still_free(ran)
        ):
            return None
        read, sent = make_short_result(result, name, params, called.limit), scope.sent
        packed = None
        if read is not None and sent is not None:
            packed = share_packed(sent, result.output["result"], read.formatted_text)
        packed = packed or pack_call(tool, params, result, scope.find_packed, has_secrets=False)
        if packed is None:
            return None
        self.number += 1
        names = name_variables(name, self.number, store)
        put_in = frozenset(scope.labels)
        labels = find_result_labels(tool, params, result, put_in, scope.source, ran.name)
        if read is None:
            unread = self._leave_unread(packed, name, called.limit, names.result)
            read = make_session_result(result, name, unread, unread, is_truncated=unread)
        keep_packed(store, tool, names, packed, labels, put_in)
        read.args_variable = names.args if names.args in store else None
        read.result_variable = names.result
        self._results.note(scope.call_id, labels)
        if not self._read_labels.has_all(labels):
            call = Ended(tool, result, put_in, labels)
            self._read_labels.note(find_labels_read(call, is_formatted=False))
        return read

    def _leave_unread(
        self, packed: PackedCall, tool_name: str, limit: int, variable: str | None
    ) -> UnreadTexts:
        """Return texts that are made when one is first read."""
        config = self._toolbox.config
        has_reader = config.tool_toggles.get("read_var", True)
        return UnreadTexts(
            _present_packed, packed, tool_name, limit, variable, config.language, has_reader
        )

    def _read_at_once(
        self,
        result: ToolExecutionResult,
        tool_name: str,
        params: Any,
        limit: int,
        packed: PackedCall | None,
        variable: str | None,
    ) -> SessionResult | None:
        """Return what the model reads of a result that code does not present.

        Args:
            result: The finished call.
            tool_name: The tool, as the conversation has it.
            params: What the model sent.
            limit: The most characters; 0 or -1: all.
            packed: What `pack_call` made of the call.
            variable: The variable that will hold the output.

        Returns:
            A result whose text is short, or made when it is first read; None: it must be made now.
        """
        short = make_short_result(result, tool_name, params, limit)
        if short is not None:
            return short
        if packed is None or not may_present_later(result, params):
            return None
        unread = self._leave_unread(packed, tool_name, limit, variable)
        return make_session_result(result, tool_name, unread, unread, is_truncated=unread)

    async def _read_in_time(
        self,
        result: ToolExecutionResult,
        tool_name: str,
        variable: str | None,
        is_short: bool,
        *options: Any,
    ) -> SessionResult:
        """Do the same for any result, whose texts are made now, perhaps in a thread."""
        config = self._toolbox.config
        shown = await present_in_time(
            result,
            *options,
            is_short=is_short,
            variable=variable if result.is_success else None,
            language=config.language,
            has_reader=config.tool_toggles.get("read_var", True),
        )
        texts = shown.formatted_text, shown.final_text
        read = make_session_result(result, tool_name, *texts, is_truncated=shown.is_truncated)
        if shown.findings:
            read.metadata = {**result.metadata, "findings": shown.findings}
        return read

    async def finish_later(
        self, tool: Tool, tool_name: str, request: ApprovalRequest, kept: Deferred
    ) -> SessionResult:
        """Finish an ended call whose result was approved later."""
        self._results.allow(request.call_id)
        read = await finish_result(tool_name, request, kept, None)
        if kept.rest is None:
            # The variables are in another process, if they exist at all.
            source = source_of(self._toolbox.catalog, tool_name)
            labels = find_result_labels(
                tool, request.params, read, kept.labels, source, request.tool_name
            )
            call = Ended(tool, read, kept.labels, labels)
            self._results.note(request.call_id, labels)
            show = self._find_show(tool_name, tool)
            if show != _FULL:
                return self._hide_result(read, show, None, len(read.formatted_text), kept.labels)
            self._read_labels.note(find_labels_read(call, is_formatted=True))
        return read

    async def _review_result(
        self,
        placed: Placed,
        tool: Tool,
        params: dict[str, Any],
        read: SessionResult,
        *,
        is_asked: bool,
    ) -> Refusal | None:
        """Ask why the model may not read a result; None: it may.

        Args:
            placed: The tool, as the conversation has it.
            tool: The engine's tool, which ran.
            params: What it ran with.
            read: The result, as the model would read it.
            is_asked: Whether what the call's tool called requires approval of the result.
        """
        refusal = await self._gate.review(
            read.call_id or "",
            tool,
            params,
            read.final_text or "",
            not read.is_success,
            error_type=read.error_type,
            is_asked=is_asked,
            called_name=placed.name,
            engine="" if placed.is_own else engine_of(self._toolbox.catalog, placed.name),
            conversation_id=self._caller.conversation_id,
            principal=self._caller.principal,
        )
        return refusal and refusal_named(refusal, tool.name, placed.name)

    async def _keep_result(
        self,
        read: SessionResult,
        tool: Tool | None,
        names: NamesOfCall | None,
        arguments: dict[str, Any],
        packed: PackedCall | None,
        result: ToolExecutionResult,
        scope: SessionScope | None,
        is_short: bool | None,
        refusal: Refusal | None,
    ) -> SessionResult:
        """Keep the result in variables, and return what the model reads of it."""
        if refusal is not None:
            self._results.withhold(result.call_id)
            return withhold_result(read, refusal)
        if tool is None or scope is None:
            return read
        if self._of_keyed and not result.is_success and _is_keyed_by_arguments(tool):
            # It may have failed since its key is that of another call: so it shows what that has.
            self._read_labels.note(self._of_keyed)
        put_in, ran_as = frozenset(scope.labels), (scope.tool or tool).name
        labels = find_result_labels(tool, arguments, result, put_in, scope.source, ran_as)
        if names is not None:
            store, is_success = self._variables, result.is_success
            if packed is None or not keep_packed(
                store, tool, names, packed, labels, put_in, is_success=is_success
            ):
                kept = tool, names, arguments, result, labels, put_in
                await keep_call_in_time(store, *kept, is_short=is_short)
            # With room for one variable the result has taken its place.
            read.args_variable = names.args if names.args in self._variables else None
            read.result_variable = names.result if result.is_success else None
        self._results.note(scope.call_id or result.call_id, labels)
        called, has_begun = scope.called, scope.call_id is not None
        show = (
            self._find_show(read.tool_name, tool)
            if called is None or find_replies()
            else called.show
        )
        # What the engine itself says of a call that did not begin holds nothing of its tool.
        if show != _FULL and has_begun and result.error_type not in _ENGINES_WORDS:
            name, chars = read.result_variable, len(read.formatted_text)
            if name is not None and name in self._variables:
                chars = self._variables.get(name).chars
            return self._hide_result(read, show, name, chars, put_in)
        if self._read_labels.has_all(labels):
            # What was put in is among them, so that nothing new is read.
            return read
        own = self._presentations.get(read.tool_name)
        is_formatted = own is not None and (own.format is not None or own.truncate is not None)
        call = Ended(tool, result, put_in, labels, has_begun)
        self._read_labels.note(find_labels_read(call, is_formatted=is_formatted))
        return read

    def _hide_result(
        self,
        read: SessionResult,
        show: str,
        variable: str | None,
        chars: int,
        put_in: frozenset[str],
    ) -> SessionResult:
        """Return a result whose content the model does not read.

        How large it is, and that the call failed, is chosen by what was put in: asked cleverly, as
        by a search, a tool spells unread content so. The one is not said then, the other is read.
        """
        is_new = not put_in - OWN_WORDS <= self._read_labels.labels
        if is_new and not read.is_success:
            self._read_labels.note(put_in)
        language = self._toolbox.config.language
        return hide_result(read, show, variable, chars, language, says_size=not is_new)

    def _find_show(self, tool_name: str, tool: Tool | None) -> str:
        """Return how much the model reads, its reply's settings included."""
        show = find_show(self._toolbox.config, tool_name, tool)
        of_reply = find_replies().get(self._toolbox)
        return show if of_reply is None else least_shown(show, find_show(of_reply, tool_name, tool))

    def _find_limit(self, tool_name: str, tool: Tool | None, presentation: Presentation) -> int:
        """Return the limit: of session, code, definition or default. S7."""
        of_reply = find_replies().get(self._toolbox)
        limit = find_limit(self._toolbox.config, tool, tool_name, presentation.limit)
        if of_reply is None:
            return limit
        other = find_limit(of_reply, tool, tool_name, presentation.limit)
        return min(limit, other, key=lambda each: each if each > 0 else inf)


def _is_keyed_by_arguments(tool: Tool) -> bool:
    """Return True if calls of the tool stand in each other's way by their arguments."""
    return (tool.concurrency.key or "").partition(".")[0] == "params"


def _is_short(result: ToolExecutionResult, scope: SessionScope | None) -> bool:
    """Return True if an output is small enough to read and keep without a thread.

    To learn it may take a millisecond: it is asked once.
    """
    packed = None if scope is None else scope.find_packed(result.output)
    return is_quick(result.output) if packed is None else len(packed) <= SHORT


def _present_packed(
    packed: PackedCall,
    tool_name: str,
    limit: int,
    variable: str | None,
    language: str,
    has_reader: bool,
) -> Presented:
    """Return the texts of a packed call, as they would have been at its end."""
    result = ToolExecutionResult(True, tool_name, unpack_output(packed))
    return present_result(
        result, {}, limit=limit, variable=variable, language=language, has_reader=has_reader
    )


def find_labels_read(call: Ended, *, is_formatted: bool) -> frozenset[str]:
    """Return the labels of what a model reads of an ended call.

    Args:
        call: The call.
        is_formatted: Whether a function made the text.
    """
    name, result, has_begun = call.tool.name, call.result, call.has_begun
    if has_begun and result.is_success and name not in READING:
        # Where there is nothing in it, there is nothing to read.
        is_empty = not is_formatted and data_of(result.output) is None
        return _NO_LABELS if is_empty else call.labels
    is_quoting = name in READING or not has_begun or result.error_type in _NOT_ADMITTED
    if name == WRITE_VAR or (not is_quoting and result.error_type in _ENGINES_WORDS):
        return _NO_LABELS
    return call.put_in if is_quoting else call.labels
