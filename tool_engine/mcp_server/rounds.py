"""What does a client carry from one round of a call to the next, and how is it used only once?"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Iterable
from time import monotonic
from typing import Any, Final

import mcp_types as types
import msgspec
from mcp.shared.exceptions import MCPError

from tool_engine.errors import ConfigurationError

STATE_HOLDS: Final = 600.0
"""Seconds in which a client may come back with an answer."""
_MOST_SPENT: Final = 10_000
"""The most states of one principal that are remembered at once."""


def check_keys(keys: object) -> list[bytes]:
    """Return the secrets that seal what clients carry.

    Raises:
        ConfigurationError: They are no list of bytes.
    """
    listed: list[Any] = list(keys) if isinstance(keys, Iterable) else [keys]
    if isinstance(keys, bytes | str) or not all(isinstance(each, bytes) for each in listed):
        raise ConfigurationError(
            "state_keys must be a list of secrets of at least 32 bytes, each as bytes, such as "
            "[os.urandom(32)]"
        )
    return listed


class RoundState(msgspec.Struct, omit_defaults=True, kw_only=True):
    """What stands in a `requestState`, which no client can read or change."""

    number: str = ""
    """Names this state, so that it is used once."""
    server: str = ""
    """Names the server that gave it, among those that share its seal."""
    definition: str = ""
    """The hash of the definition that the tool had."""
    tool: str | None = None
    """What the tool passed when it asked."""
    asked: list[str] = []
    """The fingerprints of the calls whose consent the client is asked for."""
    granted: dict[str, str | None] = {}
    """The fingerprints of the calls that were allowed, and by whom."""
    held: str | None = None
    """The call that waits for the client to come back."""

    def encode(self) -> str | None:
        """Return the text for the client; None: there is nothing to carry."""
        if not (self.tool is not None or self.asked or self.granted or self.held):
            return None
        named = msgspec.structs.replace(self, number=secrets.token_hex(16))
        return msgspec.json.encode(named).decode()


class SpentStates:
    """The states that were used, until none of them would be taken any more."""

    def __init__(self) -> None:
        self._server = secrets.token_hex(8)
        self._spent: dict[str | None, OrderedDict[str, float]] = {}

    def read_state(
        self, text: str | None, principal: str | None, definition: str = ""
    ) -> RoundState:
        """Return what a state says, and spend it.

        Args:
            text: The state, with its seal taken off; None: there is none.
            principal: Whose it is.
            definition: The hash of the definition that the tool has now.

        Raises:
            MCPError: It was used before, or is none of this server's.
        """
        if text is None:
            return RoundState(server=self._server, definition=definition)
        try:
            state = msgspec.json.decode(text, type=RoundState)
        except msgspec.DecodeError as error:
            raise _refuse_state("it is none of this server's") from error
        self._spend_number(state.number, principal)
        if state.definition != definition and state.held is None:
            # What was asked and answered was about another tool.
            return RoundState(server=self._server, definition=definition)
        granted = state.granted
        if state.server != self._server:
            # An operator's yes is for one call. Here, nothing knows whether that has run there.
            granted = {call: by for call, by in granted.items() if call in state.asked}
        return msgspec.structs.replace(state, server=self._server, granted=granted)

    def _spend_number(self, number: str, principal: str | None) -> None:
        now = monotonic()
        for each, numbers in list(self._spent.items()):
            while numbers and next(iter(numbers.values())) <= now:
                numbers.popitem(last=False)
            if not numbers:
                del self._spent[each]
        spent = self._spent.setdefault(principal, OrderedDict())
        if number in spent:
            raise _refuse_state("it was used before")
        if len(spent) >= _MOST_SPENT:
            raise _refuse_state("too many are in use: wait some minutes")
        spent[number] = now + STATE_HOLDS


def _refuse_state(why: str) -> MCPError:
    message = f"Invalid or expired requestState: {why}; call again without it"
    return MCPError(types.INVALID_PARAMS, message, {"reason": "invalid_request_state"})
