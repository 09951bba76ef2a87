"""How are tools tested, and limits tried out before they are set?

`VirtualLoop` and `run` let hours of concurrency pass at once. `simulate` replays recorded calls
under other limits, `plot` draws the outcome, and `propose_limits` says which limits would serve
better. `check_definitions` runs the examples and tests
that definitions carry.
"""

from tool_engine.model.settings.limit_proposal import LimitPoint, LimitProposal, LimitProposals
from tool_engine.testing.definitions import check_definitions
from tool_engine.testing.figures import Figures, RunFigures
from tool_engine.testing.loop_failures import CallbackError, DeadlockError
from tool_engine.testing.plot import plot
from tool_engine.testing.proposal import propose_limits
from tool_engine.testing.report import CaseReport, CaseStatus, ToolReport
from tool_engine.testing.services import Service, Services, learn_services
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
    "LimitPoint",
    "LimitProposal",
    "LimitProposals",
    "RunFigures",
    "Service",
    "Services",
    "SimulationReport",
    "ToolReport",
    "Trace",
    "TraceCall",
    "TraceError",
    "VirtualLoop",
    "check_definitions",
    "learn_services",
    "parse_trace",
    "plot",
    "propose_limits",
    "read_trace",
    "run",
    "simulate",
    "write_trace",
]
