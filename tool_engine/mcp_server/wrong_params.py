"""What is wrong with the parameters of a request, which the SDK refuses without a word of why?"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, Final

import mcp_types as types
from mcp.server.context import CallNext, HandlerResult
from mcp.server.lowlevel.server import Server
from mcp.shared.exceptions import MCPError
from mcp_types import methods
from pydantic import ValidationError

_UNSAID: Final = "Invalid request parameters"
"""The SDK's words, also for a request before `initialize`."""
_PLACE: Final = "params"
_OBJECT: Final = re.compile(r"a valid dictionary( or instance of \w+)?")
_SHOULD: Final = "should be "
_LONGEST: Final = 300
_TRACES: Final = {"traceparent": 256, "tracestate": 4_096, "baggage": 8_192}
"""What a client may say of its trace, and in how many characters."""


async def drop_wrong_trace(ctx: Any, call_next: CallNext) -> HandlerResult:
    """Leave out what names no trace: the SDK would fail of it, or log all of it."""
    said = ctx.meta
    if said and not _TRACES.keys().isdisjoint(said):
        kept = {key: each for key, each in said.items() if _can_be_trace(key, each)}
        if len(kept) < len(said):
            ctx = replace(ctx, meta=kept)
    return await call_next(ctx)


def _can_be_trace(key: str, said: object) -> bool:
    longest = _TRACES.get(key)
    return longest is None or (isinstance(said, str) and len(said) <= longest)


class WrongParams:
    """A middleware of the SDK that says which parameter is wrong.

    Args:
        server: What answers.
    """

    def __init__(self, server: Server[Any]) -> None:
        self._server = server

    async def __call__(self, ctx: Any, call_next: CallNext) -> HandlerResult:
        """Return the answer to a request.

        Raises:
            MCPError: Its parameters are not as the protocol has them, or it failed.
        """
        try:
            return await call_next(ctx)
        except ValidationError as error:
            if (wrong := self._find_wrong(ctx)) is None:
                raise
            raise MCPError(types.INVALID_PARAMS, f"Invalid params: {wrong}") from error
        except MCPError as error:
            if error.error.message != _UNSAID:
                raise
            why = f"{ctx.method} came before initialize; send initialize first"
            raise MCPError(error.error.code, why) from error

    def _find_wrong(self, ctx: Any) -> str | None:
        """Return what is wrong with what was sent; None: nothing is, it is what is answered."""
        entry = self._server.get_request_handler(ctx.method)
        try:
            if ctx.method in methods.SPEC_CLIENT_METHODS:
                methods.validate_client_request(ctx.method, ctx.protocol_version, ctx.params)
            if entry is not None:
                entry.params_type.model_validate(ctx.params or {}, by_name=False)
        except (ValidationError, KeyError) as error:
            return _describe_error(error) if isinstance(error, ValidationError) else None
        return None


def _describe_error(error: ValidationError) -> str:
    """Return the first that is wrong, without what was sent: it may hold a secret."""
    found = error.errors(include_url=False, include_input=False, include_context=False)
    place = _find_place(found[0])
    # What may be one of several things is refused by each of them.
    whats = dict.fromkeys(_describe_fault(each) for each in found if _find_place(each) == place)
    what = " or ".join(whats).replace(f" or {_SHOULD}", " or ")
    return f"{place} {what}"[:_LONGEST]


def _find_place(first: Any) -> str:
    """Return the path of a parameter; the SDK puts the names of its classes between."""
    parts = [str(each) for each in first["loc"] if not hasattr(types, str(each))]
    return ".".join(parts if parts[:1] == [_PLACE] else [_PLACE, *parts])


def _describe_fault(first: Any) -> str:
    what = "is missing" if first["type"] == "missing" else first["msg"].replace("Input ", "", 1)
    # The protocol has no dictionaries, nor classes.
    return _OBJECT.sub("an object", what)
