"""How does a handler get its call's trace, as if it ran in the engine?

This file imports nothing of the engine: a worker process loads it by its path.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Mapping
from contextlib import ExitStack


def hold_trace(headers: Mapping[str, str], *, is_alone: bool) -> ExitStack:
    """Set the trace of a call, until what this returns is left.

    No generator does it: contextlib sets the traceback of what is raised through one, and a
    handler's exception may have a property of that name.

    Args:
        headers: Those that name the trace.
        is_alone: Whether the process has no other call, so that its environment has them, too.
    """
    stack = ExitStack()
    names = {name.upper(): value for name, value in headers.items() if is_alone}
    os.environ.update(names)
    for name in names:
        stack.callback(os.environ.pop, name, None)
    # A handler that has no use for OpenTelemetry must not pay for its import.
    if "opentelemetry.context" in sys.modules:
        context = importlib.import_module("opentelemetry.context")  # a thread may be at it
        form = importlib.import_module("opentelemetry.trace.propagation.tracecontext")
        token = context.attach(form.TraceContextTextMapPropagator().extract(headers))
        stack.callback(context.detach, token)
    return stack
