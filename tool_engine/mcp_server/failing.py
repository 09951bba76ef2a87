"""What does a client hear when the code of a prompt or a resource fails?"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import mcp_types as types
from mcp.shared.exceptions import MCPError

from tool_engine.errors import ConfigurationError
from tool_engine.mcp_server.asking import ClientCannotError, InputRequiredError
from tool_engine.redaction import redact

_LONGEST = 1_000


@contextmanager
def answer_failures(what: str) -> Iterator[None]:
    """Turn what the code inside raises into an error of the server, which says what failed.

    The SDK hides it from clients of 2026-07-28, and shows others the bare text; what is no
    `Exception`, such as SystemExit, would end the server or leave the client without an answer.
    """
    try:
        yield
    except (MCPError, InputRequiredError, ClientCannotError, KeyboardInterrupt, GeneratorExit):
        raise
    except ConfigurationError as error:
        raise MCPError(types.INTERNAL_ERROR, str(error)) from error
    except BaseException as error:
        if isinstance(error, asyncio.CancelledError) and _is_cancelled():
            raise
        why = f"{type(error).__name__}: {redact(str(error))}"[:_LONGEST]
        raise MCPError(types.INTERNAL_ERROR, f"{what} failed: {why}") from error


def _is_cancelled() -> bool:
    """Return True if the request itself is given up, and not only what its code waited for."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0
