"""Which words may follow `call`, `batch` and `simulate`?

Signatures only: what a command does is imported when it runs, so that `--help` answers at once.
"""

from __future__ import annotations

from typing import Annotated

import typer

from tool_engine.cli.completion import complete_strategy
from tool_engine.cli.options import (
    JSONOption,
    NameArgument,
    RecordsOption,
    TimeoutOption,
    ToolsOption,
    settings_of,
)


def call_command(
    ctx: typer.Context,
    name: NameArgument,
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="KEY=VALUE",
            help="Arguments: key=value by the parameter's type, key:=json, key=@file; also "
            "--key value, or one JSON object.",
        ),
    ] = None,
    *,
    params: Annotated[
        str | None,
        typer.Option(
            "--params", metavar="FILE", help="Arguments from a JSON or YAML file; - is stdin."
        ),
    ] = None,
    timeout: TimeoutOption = None,
    as_json: JSONOption = False,
    tools: ToolsOption = None,
    records: RecordsOption = None,
) -> int:
    """Call one tool.

    Example: tool-engine call http_request url=https://example.com headers:='{"accept": "*/*"}'
    """
    from tool_engine.cli.call_running import Request, call_tool

    request = Request(name, tuple(words or ()), params, timeout)
    return call_tool(settings_of(ctx, tools, records), request, as_json=as_json)


def batch_command(
    ctx: typer.Context,
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="A JSON or YAML list, or JSON lines; - is stdin.")
    ],
    *,
    parallel: Annotated[
        bool, typer.Option("--parallel", "-p", help="Run the calls at the same time.")
    ] = False,
    max_parallel: Annotated[
        int | None,
        typer.Option("--max-parallel", min=1, metavar="N", help="At most N at the same time."),
    ] = None,
    trace: Annotated[
        str | None,
        typer.Option("--trace", metavar="FILE", help="Record the calls for `simulate`."),
    ] = None,
    as_json: JSONOption = False,
    tools: ToolsOption = None,
    records: RecordsOption = None,
) -> int:
    """Run many calls, each {"tool": NAME, "params": {...}} or a list of NAME and params.

    Example: tool-engine batch calls.jsonl --parallel --max-parallel 4
    """
    from tool_engine.cli.call_running import BatchOptions, run_batch

    options = BatchOptions(parallel or max_parallel is not None, max_parallel, trace)
    return run_batch(settings_of(ctx, tools, records), file, options, as_json=as_json)


def simulate_command(
    trace: Annotated[
        str, typer.Argument(metavar="TRACE", help="JSON lines, one call each; - is stdin.")
    ],
    *,
    max_concurrent: Annotated[
        int | None, typer.Option("--max-concurrent", metavar="N", help="Slots in all.")
    ] = None,
    bucket: Annotated[
        list[str] | None,
        typer.Option("--bucket", metavar="NAME=N", help="Slots of a bucket; repeatable."),
    ] = None,
    strategy: Annotated[
        str | None,
        typer.Option(
            "--strategy",
            metavar="NAME",
            help="fifo, priority, fair or reject.",
            autocompletion=complete_strategy,
        ),
    ] = None,
    queue_size: Annotated[
        int | None, typer.Option("--queue-size", metavar="N", help="The most calls that wait.")
    ] = None,
    queue_timeout: Annotated[
        float | None,
        typer.Option("--queue-timeout", metavar="S", help="The most seconds to wait, or inf."),
    ] = None,
    key_limit: Annotated[
        int | None, typer.Option("--key-limit", metavar="N", help="Slots per key.")
    ] = None,
    seed: Annotated[
        int, typer.Option("--seed", metavar="N", help="0, or shuffle what happens at once.")
    ] = 0,
    plot: Annotated[
        str | None, typer.Option("--plot", metavar="FILE", help="Draw slots over time, as SVG.")
    ] = None,
    as_json: JSONOption = False,
    tools: ToolsOption = None,
) -> int:
    """Replay recorded calls under other limits: waits, refusals and use, beside the original.

    Example: tool-engine simulate calls.jsonl --bucket http=8 --strategy priority --plot slots.svg
    """
    from tool_engine.cli.records.simulate import Limits, simulate_trace

    limits = Limits(
        max_concurrent=max_concurrent,
        buckets=tuple(bucket or ()),
        strategy=strategy,
        queue_size=queue_size,
        queue_timeout=queue_timeout,
        key_limit=key_limit,
    )
    return simulate_trace(trace, limits, seed=seed, picture=plot, as_json=as_json)
