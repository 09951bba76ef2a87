"""How do people test what they build on the engine, and try out limits before they set them?

`VirtualLoop` and `run` let hours of concurrency pass at once. `simulate` replays recorded calls
under other limits, and `plot` draws what came of it.
"""

from tool_engine.testing.failing import CallbackError, DeadlockError
from tool_engine.testing.figures import Figures, RunFigures
from tool_engine.testing.plot import plot
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
    "DeadlockError",
    "Figures",
    "RunFigures",
    "SimulationReport",
    "Trace",
    "TraceCall",
    "TraceError",
    "VirtualLoop",
    "parse_trace",
    "plot",
    "read_trace",
    "run",
    "simulate",
    "write_trace",
]
