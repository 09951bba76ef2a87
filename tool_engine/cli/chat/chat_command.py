"""What may be said to `chat`, and how does it end?"""

from __future__ import annotations

from typing import Annotated

import typer

from tool_engine.cli.chat.chat_options import ChatOptions, check_options, read_system
from tool_engine.cli.completion import complete_tool
from tool_engine.cli.console import print_json_line
from tool_engine.cli.failures import CommandError
from tool_engine.cli.options import RecordsOption, ToolsOption, settings_of
from tool_engine.cli.settings import Settings
from tool_engine.cli.signals import run_async

MessageArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="MESSAGE",
        help="One turn, and then the end; without it each line of stdin is a turn.",
        show_default=False,
    ),
]
ModelOption = Annotated[
    str | None,
    typer.Option("--model", "-m", metavar="PROVIDER:NAME", help="Who answers: openai:NAME."),
]
ScriptOption = Annotated[
    str | None, typer.Option("--script", metavar="FILE", help="Play a recorded model, offline.")
]
AddressOption = Annotated[
    str | None, typer.Option("--base-url", metavar="URL", help="Where a compatible server is.")
]
ProtocolOption = Annotated[
    str | None,
    typer.Option(
        "--protocol", "-p", metavar="P", help="Tell of tools as text: vcp or function_call."
    ),
]
GroupsOption = Annotated[
    str | None, typer.Option("--groups", "-g", metavar="A,B", help="Turn these groups on.")
]
EnableOption = Annotated[
    str | None,
    typer.Option(
        "--enable",
        "-e",
        metavar="A,B",
        help="Turn these tools on that their group has off.",
        autocompletion=complete_tool,
    ),
]
SystemOption = Annotated[
    str, typer.Option("--system", metavar="TEXT", help="What the model is told once, or @FILE.")
]
SessionOption = Annotated[
    str | None,
    typer.Option("--session", metavar="ID", help="Keep this conversation, and go on with it."),
]
SubAgentsOption = Annotated[
    int, typer.Option("--sub-agents", min=0, metavar="N", help="How deep sub-agents may nest.")
]
ConfirmOption = Annotated[
    bool | None,
    typer.Option(
        "--confirm/--no-confirm",
        help="Ask before each call, or only where tools say so.",
        show_default=False,
    ),
]
DeferOption = Annotated[
    bool, typer.Option("--defer", help="Keep what must be asked, for `sessions approve`.")
]
RoundsOption = Annotated[
    int | None,
    typer.Option("--max-rounds", min=1, metavar="N", help="The most rounds of a turn; else 10."),
]
WholeOption = Annotated[bool, typer.Option("--no-stream", help="Ask the model for whole replies.")]
LinesOption = Annotated[bool, typer.Option("--json", help="Print each step as a line of JSON.")]


def run_command(
    ctx: typer.Context,
    message: MessageArgument = None,
    *,
    model: ModelOption = None,
    script: ScriptOption = None,
    base_url: AddressOption = None,
    protocol: ProtocolOption = None,
    groups: GroupsOption = None,
    enable: EnableOption = None,
    system: SystemOption = "",
    session: SessionOption = None,
    sub_agents: SubAgentsOption = 0,
    confirm: ConfirmOption = None,
    defer: DeferOption = False,
    max_rounds: RoundsOption = None,
    no_stream: WholeOption = False,
    as_json: LinesOption = False,
    tools: ToolsOption = None,
    records: RecordsOption = None,
) -> int:
    """Talk with a model that uses the tools.

    Example: tool-engine chat --model openai:qwen3 --base-url http://127.0.0.1:8000/v1 --groups web
    """
    options = ChatOptions(
        message=" ".join(message) if message else None,
        model=model,
        script=script,
        base_url=base_url,
        protocol=protocol,
        groups=groups,
        enabled=enable,
        system=system,
        session_id=session,
        sub_agents=sub_agents,
        is_confirmed=confirm,
        is_deferred=defer,
        max_rounds=max_rounds,
        is_streamed=not no_stream,
    )
    return lead_chat(settings_of(ctx, tools, records), options, as_json=as_json)


def lead_chat(settings: Settings, options: ChatOptions, *, as_json: bool) -> int:
    """Lead a conversation until the user has nothing more to say.

    Raises:
        CommandError: The options contradict each other, or Ctrl-C ended it all.
    """
    check_options(options)
    system = read_system(options.system)
    # Models, loop and sessions take half a second, for which help and completion do not wait.
    from tool_engine.cli.chat.conversation import run_chat

    try:
        run = run_chat(settings, options, system, as_json=as_json)
        return run_async(run, has_document=as_json)
    except CommandError as error:
        if not as_json or error.kind != "interrupted":
            raise
        # A document of several lines would break a stream of JSON lines.
        print_json_line({"type": "error", "error": str(error)})
        return error.exit_code
