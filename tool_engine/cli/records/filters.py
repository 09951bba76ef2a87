"""Which records does a command show, by its options?"""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer

from tool_engine.cli.completion import complete_error_type, complete_tool
from tool_engine.cli.records.quantities import parse_moment
from tool_engine.model.record import RecordQuery

LineJSONOption = Annotated[bool, typer.Option("--json", help="Print one JSON document per line.")]
ToolOption = Annotated[
    str | None,
    typer.Option(
        "--tool", "-t", metavar="NAME", help="Only of this tool.", autocompletion=complete_tool
    ),
]
FailedOption = Annotated[bool, typer.Option("--failed", "-f", help="Only what did not succeed.")]
ErrorOption = Annotated[
    str | None,
    typer.Option(
        "--error-type",
        metavar="TYPE",
        help="Only what failed so, such as timeout.",
        autocompletion=complete_error_type,
    ),
]
CallerOption = Annotated[
    str | None, typer.Option("--caller", metavar="ID", help="Only of this caller.")
]
ConversationOption = Annotated[
    str | None, typer.Option("--conversation", metavar="ID", help="Only of this conversation.")
]
SessionOption = Annotated[
    str | None, typer.Option("--session", metavar="ID", help="Only of this session.")
]
OriginOption = Annotated[
    str | None,
    typer.Option("--origin", metavar="ORIGIN", help="Only of tools from there: mcp:github, code."),
]
TaskOption = Annotated[
    str | None, typer.Option("--task", metavar="ID", help="Only of this task, and what it called.")
]
ProcessOption = Annotated[
    str | None,
    typer.Option("--process", metavar="NAME", help="Only of the process of this name."),
]
SinceOption = Annotated[
    str | None,
    typer.Option("--since", metavar="TIME", help="Ended since, such as 1h ago or 2026-11-01."),
]
UntilOption = Annotated[
    str | None, typer.Option("--until", metavar="TIME", help="Ended before that time.")
]
LimitOption = Annotated[
    int, typer.Option("--limit", "-n", min=0, metavar="N", help="The newest N.")
]
FollowOption = Annotated[
    bool, typer.Option("--follow", "-F", help="Go on with what comes, until Ctrl-C.")
]


class RecordFilters(msgspec.Struct, frozen=True):
    """Which records to show; None matches all."""

    tool: str | None = None
    is_failed: bool = False
    error_type: str | None = None
    caller: str | None = None
    conversation: str | None = None
    since: str | None = None
    until: str | None = None
    session: str | None = None
    origin: str | None = None
    task: str | None = None
    process: str | None = None

    def query(self, limit: int | None = None) -> RecordQuery:
        return RecordQuery(
            tool_name=self.tool,
            is_success=False if self.is_failed else None,
            error_type=self.error_type,
            caller_id=self.caller,
            conversation_id=self.conversation,
            session_id=self.session,
            origin=self.origin,
            task_id=self.task,
            process=self.process,
            start=None if self.since is None else parse_moment("--since", self.since),
            end=None if self.until is None else parse_moment("--until", self.until),
            limit=limit,
        )
