"""How does the command line replay recorded calls under other limits, or propose some?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any, Final

import msgspec
import typer

from tool_engine.cli.calls.proposing import print_proposals, read_calls
from tool_engine.cli.completion import complete_strategy
from tool_engine.cli.console import as_text, make_console, print_json
from tool_engine.cli.documents import open_stdin
from tool_engine.cli.failures import EXIT_OK, CommandError
from tool_engine.cli.options import JSONOption, RecordsOption, ToolsOption, settings_of
from tool_engine.cli.records.filters import SinceOption
from tool_engine.cli.tables import count_text, make_table
from tool_engine.cli.writing import write_output
from tool_engine.config import ConcurrencyConfig, KeyLimits, checked_concurrency
from tool_engine.testing.figures import Figures
from tool_engine.testing.plot import plot
from tool_engine.testing.proposal import infer_limits, propose_limits
from tool_engine.testing.simulation import SimulationReport, simulate
from tool_engine.testing.trace import Trace, TraceError, parse_trace, read_trace

_RUNS: Final = ("original", "simulated")
_UNKNOWN: Final = "does not hold the limits under which it was made"


def _describe_refused(figures: Figures) -> str:
    if not figures.rejected:
        return "0"
    reasons = ", ".join(f"{kind} {count}" for kind, count in figures.rejected.items())
    return f"{figures.calls - figures.ran} ({reasons})"


def _show_seconds(value: float) -> str:
    return f"{value:,.3f} s"


_ROWS: Final[tuple[tuple[str, Callable[[Figures], str]], ...]] = (
    ("calls", lambda figures: str(figures.calls)),
    ("refused", _describe_refused),
    ("wait, mean", lambda figures: _show_seconds(figures.wait_mean)),
    ("wait, half up to", lambda figures: _show_seconds(figures.wait_p50)),
    ("wait, 90 % up to", lambda figures: _show_seconds(figures.wait_p90)),
    ("wait, 99 % up to", lambda figures: _show_seconds(figures.wait_p99)),
    ("wait, longest", lambda figures: _show_seconds(figures.wait_max)),
    ("longest queue", lambda figures: str(figures.longest_queue)),
    ("makespan", lambda figures: _show_seconds(figures.makespan)),
    ("slots", lambda figures: str(figures.slots)),
    ("most in use", lambda figures: str(figures.peak)),
    ("utilisation", lambda figures: f"{figures.utilisation:.1%}"),
)


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The simulation's limits; None: those of `ConcurrencyConfig`."""

    max_concurrent: int | None = None
    buckets: tuple[str, ...] = ()
    """`http=8`, one each."""
    strategy: str | None = None
    queue_size: int | None = None
    queue_timeout: float | None = None
    """Seconds; infinite: no bound."""
    key_limit: int | None = None

    def to_config(self, present: ConcurrencyConfig | None = None) -> ConcurrencyConfig:
        """Return the limits of the simulation.

        Args:
            present: What holds where nothing is given; None: as in a new configuration.

        Raises:
            CommandError: A bucket's limit is no `NAME=NUMBER`.
            ConfigurationError: A value is out of range.
        """
        fields: dict[str, Any] = {
            "max_concurrent": self.max_concurrent,
            "strategy": self.strategy,
            "queue_size": self.queue_size,
            "queue_timeout": self.queue_timeout,
        }
        chosen = {name: value for name, value in fields.items() if value is not None}
        if self.queue_timeout == float("inf"):
            chosen["queue_timeout"] = None
        if self.key_limit is not None:
            chosen["key_limits"] = KeyLimits(limit=self.key_limit)
        base = ConcurrencyConfig() if present is None else present
        named = {**base.bucket_limits, **_bucket_limits(self.buckets)}
        return msgspec.structs.replace(base, bucket_limits=named, **chosen)


_Trace = Annotated[
    str | None,
    typer.Argument(
        metavar="TRACE", help="JSON lines, one call each; - is stdin. None: the records."
    ),
]
_Slots = Annotated[int | None, typer.Option("--max-concurrent", metavar="N", help="Slots in all.")]
_Bucket = Annotated[
    list[str] | None,
    typer.Option(
        "--bucket",
        metavar="NAME=N",
        help="Slots of a bucket; repeatable. With --propose also NAME: for this one.",
    ),
]
_Strategy = Annotated[
    str | None,
    typer.Option(
        "--strategy",
        metavar="NAME",
        help="fifo, priority, fair or reject.",
        autocompletion=complete_strategy,
    ),
]
_QueueSize = Annotated[
    int | None, typer.Option("--queue-size", metavar="N", help="The most calls that wait.")
]
_QueueTimeout = Annotated[
    float | None,
    typer.Option("--queue-timeout", metavar="S", help="The most seconds to wait, or inf."),
]
_KeyLimit = Annotated[int | None, typer.Option("--key-limit", metavar="N", help="Slots per key.")]
_Seed = Annotated[
    int, typer.Option("--seed", metavar="N", help="0, or shuffle what happens at once.")
]
_Plot = Annotated[
    str | None, typer.Option("--plot", metavar="FILE", help="Draw slots over time, as SVG.")
]
_Propose = Annotated[
    bool, typer.Option("--propose", help="Propose limits; those given are the ones of now.")
]
_Curve = Annotated[
    bool, typer.Option("--curve", help="With --propose: all limits that were simulated.")
]
_Last = Annotated[
    int | None, typer.Option("--last", min=1, metavar="N", help="The newest N records.")
]


def run_command(
    ctx: typer.Context,
    trace: _Trace = None,
    *,
    max_concurrent: _Slots = None,
    bucket: _Bucket = None,
    strategy: _Strategy = None,
    queue_size: _QueueSize = None,
    queue_timeout: _QueueTimeout = None,
    key_limit: _KeyLimit = None,
    seed: _Seed = 0,
    plot: _Plot = None,
    propose: _Propose = False,
    curve: _Curve = False,
    last: _Last = None,
    since: SinceOption = None,
    as_json: JSONOption = False,
    tools: ToolsOption = None,
    records: RecordsOption = None,
) -> int:
    """Replay recorded calls under other limits, or propose limits: waits, refusals, use.

    Example: tool-engine simulate calls.jsonl --bucket http=8 --strategy priority --plot slots.svg
    """
    named = tuple(bucket or ())
    limits = Limits(
        max_concurrent=max_concurrent,
        buckets=tuple(each for each in named if "=" in each) if propose else named,
        strategy=strategy,
        queue_size=queue_size,
        queue_timeout=queue_timeout,
        key_limit=key_limit,
    )
    settings = settings_of(ctx, tools, records)
    found = read_calls(settings, last, since) if trace is None else _read_trace(trace)
    if not propose:
        return simulate_trace(found, limits, seed=seed, picture=plot, as_json=as_json)
    said = settings.engine_fields().get("concurrency")
    present = infer_limits(found) if said is None else checked_concurrency(said)
    is_known = said is not None or limits != Limits()
    config = limits.to_config(present) if is_known else None
    wanted = [each.partition("=")[0] for each in named]
    proposals = propose_limits(found, config, buckets=wanted or None, seed=seed)
    return print_proposals(proposals, with_curve=curve, as_json=as_json)


def simulate_trace(
    trace: Trace, limits: Limits, *, seed: int, picture: str | None, as_json: bool
) -> int:
    report = simulate(trace, limits.to_config(), seed=seed)
    if picture is not None:
        write_output(picture, plot(report))
    if as_json:
        print_json({**report.to_dict(), "plot": picture})
    else:
        _print_report(report, picture)
    return EXIT_OK


def _read_trace(trace: str) -> Trace:
    try:
        if trace == "-":
            return parse_trace(open_stdin(), "stdin")
        return read_trace(trace)
    except TraceError as error:
        raise CommandError(str(error), error_type=error.error_type) from error


def _bucket_limits(words: Iterable[str]) -> dict[str, int]:
    limits: dict[str, int] = {}
    for word in words:
        name, equals, number = word.rpartition("=")
        if not equals or not name or not number.isascii() or not number.isdigit():
            raise CommandError(f"--bucket {word!r} is no limit; write NAME=NUMBER, such as http=8")
        if name in limits:
            raise CommandError(f"--bucket {name!r} is given twice; give it once")
        limits[name] = int(number)
    return limits


def _print_report(report: SimulationReport, picture: str | None) -> None:
    console = make_console()
    config = report.config
    table = make_table(
        f"{config.strategy}, {count_text(config.max_concurrent, 'slot')}", "", *_RUNS
    )
    for name, text_of in _ROWS:
        total = report.original.total, report.simulated.total
        table.add_row(as_text(name, "bold cyan"), *(as_text(text_of(each)) for each in total))
    console.print(table)
    buckets = make_table("buckets", "bucket", "", "calls", "refused", "wait, mean", "90 %", "slots")
    buckets.add_column("use")
    for row in _bucket_rows(report):
        buckets.add_row(*(as_text(cell) for cell in row))
    console.print(buckets)
    for note in (
        *report.notes,
        f"utilisation of the original: of its peak, for a trace {_UNKNOWN}",
    ):
        console.print(as_text(f"note: {note}"), soft_wrap=True)
    if picture is not None:
        console.print(as_text(f"picture: {picture}"), soft_wrap=True)


def _bucket_rows(report: SimulationReport) -> Iterator[tuple[str, ...]]:
    for bucket in report.simulated.buckets:
        runs = (report.original, report.simulated)
        for run_name, run in zip(_RUNS, runs, strict=True):
            figures = run.buckets[bucket]
            yield (
                bucket if run is report.original else "",
                run_name,
                str(figures.calls),
                str(figures.calls - figures.ran),
                _show_seconds(figures.wait_mean),
                _show_seconds(figures.wait_p90),
                str(figures.slots),
                f"{figures.utilisation:.1%}",
            )
