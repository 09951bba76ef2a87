"""How does `chat` set up a conversation with a model?"""

from __future__ import annotations

import contextlib
import os
import sys
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from tool_engine.agent.loop import AgentLoop
from tool_engine.agent.models.registry import chat_model
from tool_engine.cli.chat.chat_view import ChatView, JSONView, PlainView, TerminalView
from tool_engine.cli.chat.input import Said
from tool_engine.cli.chat.turns import ChatTurns
from tool_engine.cli.console import print_json_line
from tool_engine.cli.documents import read_text
from tool_engine.cli.failures import CommandError
from tool_engine.cli.records.recording import recording_engine
from tool_engine.cli.settings import Settings, run_async
from tool_engine.engine import ToolEngine
from tool_engine.errors import SessionError
from tool_engine.interfaces import Approver, ChatModel
from tool_engine.knowledge.memory import MemoryStorage
from tool_engine.model.tool import Tool
from tool_engine.session.config import ToolCallConfig
from tool_engine.session.session import ToolSession

_AGENT: Final = "tool-engine-cli"
_DAY: Final = 86_400.0
_NO_MODEL: Final = (
    "name one model: --model PROVIDER:NAME, such as openai:NAME, or --script FILE for a recorded "
    "one"
)


class ChatOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a conversation; None: not given."""

    message: str | None = None
    """The user's message; None: each line of stdin is a turn."""
    model: str | None = None
    script: str | None = None
    base_url: str | None = None
    protocol: str | None = None
    groups: str | None = None
    """The names of groups, with commas between."""
    enabled: str | None = None
    """The names of tools, with commas between, that are on even if their group has them off."""
    system: str = ""
    session_id: str | None = None
    sub_agents: int = 0
    is_confirmed: bool | None = None
    is_deferred: bool = False
    max_rounds: int | None = None
    is_streamed: bool = True


def chat(settings: Settings, options: ChatOptions, *, as_json: bool) -> int:
    """Lead a conversation until the user has nothing more to say.

    Raises:
        CommandError: The options contradict each other, or Ctrl-C ended it all.
    """
    _check_options(options)
    system = _read_system(options.system)
    try:
        return run_async(_run_chat(settings, options, system, as_json=as_json))
    except CommandError as error:
        if not as_json or error.kind != "interrupted":
            raise
        # A document of several lines would break a stream of JSON lines.
        print_json_line({"type": "error", "error": str(error)})
        return error.exit_code


def _check_options(options: ChatOptions) -> None:
    if (options.model is None) == (options.script is None):
        raise CommandError(_NO_MODEL)
    is_recorded = options.script is not None or (options.model or "").startswith("recorded:")
    if is_recorded and options.base_url is not None:
        raise CommandError("--base-url goes with --model: a recorded model asks no server")
    if options.session_id is not None and not options.session_id.strip():
        raise CommandError("--session takes a name for the conversation, such as notes-1")
    if options.is_deferred and options.session_id is None:
        raise CommandError(
            "--defer keeps what must be asked with the conversation: name it with --session ID"
        )
    if options.message is not None and not options.message.strip():
        raise CommandError("the MESSAGE is empty; leave it out to say each turn on a line of stdin")
    if options.groups is not None and not _split_names(options.groups):
        raise CommandError("--groups takes names of groups, such as web,files")
    if options.enabled is not None and not _split_names(options.enabled):
        raise CommandError("--enable takes names of tools, such as write_file,edit_file")


def _split_names(text: str) -> list[str]:
    return [each.strip() for each in text.split(",") if each.strip()]


def _read_system(text: str) -> str:
    """Return `text`, or the file's text behind an `@`."""
    if not text.startswith("@"):
        return text
    try:
        return read_text(text[1:])
    except CommandError as error:
        raise CommandError(f"--system: {error}") from error


async def _run_chat(settings: Settings, options: ChatOptions, system: str, *, as_json: bool) -> int:
    said = Said(options.message)
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

        async def again() -> AgentLoop:
            nonlocal session
            session = await _open_session(engine, options)
            return _make_loop(session, model, options, system, turns)

        view = stack.enter_context(_make_view(find, as_json=as_json))
        turns = ChatTurns(view, said, is_kept=options.session_id is not None)
        loop = _make_loop(session, model, options, system, turns)
        return await turns.lead(loop, again if options.session_id is not None else None)


def _make_view(find: Callable[[str], Tool | None], *, as_json: bool) -> ChatView:
    if as_json:
        return JSONView()
    is_seen = sys.stdout.isatty() and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
    return TerminalView(find) if is_seen else PlainView(find)


def _make_model(options: ChatOptions) -> ChatModel:
    known = {"protocol": options.protocol, "base_url": options.base_url}
    given = {name: value for name, value in known.items() if value is not None}
    named = f"recorded:{options.script}" if options.script is not None else options.model
    return chat_model(named or "", **given)


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
        session = ToolSession(engine, name, config, _make_approver(options), agent_id=_AGENT)
    for name in _split_names(options.groups or ""):
        session.toolbox.toggle_group_enabled(name, True)
    for name in _split_names(options.enabled or ""):
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
