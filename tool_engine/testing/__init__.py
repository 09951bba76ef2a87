"""How are tools tested, and limits tried out before they are set?

`VirtualLoop` and `run` let hours of concurrency pass at once. `simulate` replays recorded calls
under other limits, and `plot` draws the outcome. `check_definitions` runs the examples and tests
that definitions carry.
"""

from tool_engine.testing.definitions import check_definitions
from tool_engine.testing.figures import Figures, RunFigures
from tool_engine.testing.loop_failures import CallbackError, DeadlockError
from tool_engine.testing.plot import plot
from tool_engine.testing.report import CaseReport, CaseStatus, ToolReport
from tool_engine.testing.simulation import SimulationReport, simulate
from tool_engine.testing.trace import (
    Trace,
    TraceCall,
    TraceError,
    parse_trace,
    read_trace,
    write_trace,
)
from tool_engine.testing.virtual_loop import VirtualLoop, run

__all__ = [
    "CallbackError",
    "CaseReport",
    "CaseStatus",
    "DeadlockError",
    "Figures",
    "RunFigures",
    "SimulationReport",
    "ToolReport",
    "Trace",
    "TraceCall",
    "TraceError",
    "VirtualLoop",
    "check_definitions",
    "parse_trace",
    "plot",
    "read_trace",
    "run",
    "simulate",
    "write_trace",
]
