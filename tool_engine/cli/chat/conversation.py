"""How is a conversation with a model set up?"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Final

from tool_engine.agent.loop import AgentLoop
from tool_engine.agent.models.registry import chat_model
from tool_engine.cli.calls.caller import CALLER
from tool_engine.cli.chat.chat_options import ChatOptions, split_names
from tool_engine.cli.chat.chat_view import ChatView, JSONView, PlainView, TerminalView
from tool_engine.cli.chat.input import Said
from tool_engine.cli.chat.turns import ChatTurns
from tool_engine.cli.console import safe_text
from tool_engine.cli.failures import CommandError, suggest_name
from tool_engine.cli.records.recording import recording_engine
from tool_engine.cli.settings import Settings
from tool_engine.cli.tables import count_text
from tool_engine.engine import ToolEngine
from tool_engine.errors import ConfigurationError, SessionError
from tool_engine.interfaces import Approver, ChatModel
from tool_engine.knowledge.memory import MemoryStorage
from tool_engine.model.tool import Tool
from tool_engine.session.config import ToolCallConfig
from tool_engine.session.session import ToolSession

_DAY: Final = 86_400.0


async def run_chat(settings: Settings, options: ChatOptions, system: str, *, as_json: bool) -> int:
    said = _open_input(options, as_json=as_json)
    async with contextlib.AsyncExitStack() as stack:
        model = _make_model(options)
        close = getattr(model, "close", None)
        if close is not None:
            stack.push_async_callback(close)
        engine = await stack.enter_async_context(recording_engine(settings, auto_reload=True))
        session = await _open_session(engine, options)

        def find(name: str) -> Tool | None:
            # Also tools that are off may be called, with secrets in their arguments.
            placed = session.toolbox.find(name)
            return None if placed is None else placed.tool

        def explain(name: str) -> str:
            return _explain_off(session, name)

        async def again() -> AgentLoop:
            nonlocal session
            session = await _open_session(engine, options)
            return _make_loop(session, model, options, system, turns)

        view = stack.enter_context(_make_view(find, explain, as_json=as_json))
        turns = ChatTurns(view, said, is_kept=options.session_id is not None, options=options)
        loop = _make_loop(session, model, options, system, turns)
        if said.is_terminal and not as_json:
            view.show_text(_describe_start(session, options))
        return await turns.lead(loop, again if options.session_id is not None else None)


def _open_input(options: ChatOptions, *, as_json: bool) -> Said:
    said = Said(options.message)
    if as_json or not said.is_terminal or not _is_seen():
        return said
    from tool_engine.cli.chat.prompt import TypedWords

    return TypedWords()


def _describe_start(session: ToolSession, options: ChatOptions) -> str:
    """Return who answers, with how much, and how a person finds the rest."""
    tools = count_text(len(session.toolbox.tools()), "tool")
    return f"{options.model or options.script}, {tools}; /help lists what else can be typed"


def _make_view(
    find: Callable[[str], Tool | None], explain: Callable[[str], str], *, as_json: bool
) -> ChatView:
    if as_json:
        return JSONView()
    return TerminalView(find, explain) if _is_seen() else PlainView(find, explain)


def _explain_off(session: ToolSession, name: str) -> str:
    """Return how to turn a tool on that is off; empty for any other."""
    placed = session.toolbox.find(name)
    if placed is None or session.get(name) is not None:
        return ""
    if not placed.tool.is_offered:
        return f"it runs only as a task: tool-engine task start {safe_text(name)}"
    if placed.tool.is_enabled:
        return f"to turn it on: --enable {safe_text(name)}, or --groups GROUP"
    return f"models may call it with `status: published`; it says {placed.tool.status}"


def _is_seen() -> bool:
    """Return True if a person sees the output in a terminal that can be steered."""
    return sys.stdout.isatty() and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


def _make_model(options: ChatOptions) -> ChatModel:
    known = {"protocol": options.protocol, "base_url": options.base_url}
    given = {name: value for name, value in known.items() if value is not None}
    named = f"recorded:{options.script}" if options.script is not None else options.model
    try:
        return chat_model(named or "", **given)
    except ConfigurationError as error:
        # It says what a program writes; a key on a command line would be seen by others.
        words = str(error).replace("pass api_key=..., set", "set")
        words = re.sub(r"(?<!-)base_url(=\.\.\.)?", "--base-url", words)
        raise CommandError(words, error_type=error.error_type) from error


def _make_loop(
    session: ToolSession, model: ChatModel, options: ChatOptions, system: str, turns: ChatTurns
) -> AgentLoop:
    known: dict[str, Any] = {
        "on_event": turns.hear,
        "is_streamed": options.is_streamed,
        "sub_agents": options.sub_agents,
    }
    if system:
        known["system"] = system
    kept = session.more.get("loop")
    if kept is None:
        return AgentLoop(session, model, **known)
    try:
        return AgentLoop.from_dict(kept, session, model, **known)
    except SessionError as error:
        raise CommandError(
            f"the session {session.session_id!r} cannot go on here: {error}; or begin another one "
            "with --session ID",
            error_type=error.error_type,
        ) from error


async def _open_session(engine: ToolEngine, options: ChatOptions) -> ToolSession:
    """Return a new or kept conversation with this command line's settings."""
    session = await _load_session(engine, options)
    if session is None:
        name = options.session_id or f"chat-{uuid.uuid4().hex[:12]}"
        config = ToolCallConfig(**_list_changes(options))
        session = ToolSession(engine, name, config, _make_approver(options), agent_id=CALLER)
    groups = [each.name for each in session.toolbox.groups()]
    for name in split_names(options.groups or ""):
        if name not in groups:
            hint = suggest_name(name, groups) or "; a file with `kind: group` makes one"
            raise CommandError(f"there is no group {name!r}{hint}", error_type="group_not_found")
        session.toolbox.toggle_group_enabled(name, True)
    for name in split_names(options.enabled or ""):
        if session.toolbox.find(name) is None:
            hint = suggest_name(name, engine.list_names()) or "; see tool-engine list"
            raise CommandError(f"there is no tool {name!r}{hint}", error_type="tool_not_found")
        session.toolbox.set_tool_enabled(name, True)
    return session


async def _load_session(engine: ToolEngine, options: ChatOptions) -> ToolSession | None:
    if options.session_id is None:
        return None
    if isinstance(engine.store.storage, MemoryStorage):
        raise CommandError(
            "--session needs a place that stays: a database, named with --records URL such as "
            "sqlite:///calls.db, and the extra sql (pip install 'tool-engine[sql]')",
            error_type="no_records",
        )
    data = await engine.store.sessions.load(options.session_id)
    if data is None:
        return None
    if isinstance(data.get("config"), Mapping):
        data = {**data, "config": {**data["config"], **_list_changes(options)}}
    session = ToolSession.from_dict(data, engine, _make_approver(options))
    session.gate.book.timeout = session.config.approval_timeout
    return session


def _list_changes(options: ChatOptions) -> dict[str, Any]:
    """Return the settings of this command line, also for a kept conversation."""
    known = {
        "require_confirmation": options.is_confirmed,
        "max_iterations": options.max_rounds,
        # A later answer needs more time than one at the terminal.
        "approval_timeout": _DAY if options.is_deferred else None,
    }
    return {name: value for name, value in known.items() if value is not None}


def _make_approver(options: ChatOptions) -> Approver:
    if options.is_deferred:
        from tool_engine.approval.callback import DeferredApprover

        return DeferredApprover()
    from tool_engine.approval.console import ConsoleApprover

    return ConsoleApprover()
