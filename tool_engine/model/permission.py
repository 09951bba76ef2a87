"""Which permissions can a user set for calls and for reading their results?"""

from __future__ import annotations

from enum import Enum
from typing import Final

import msgspec

from tool_engine.errors import ConfigurationError
from tool_engine.model.checks.bounds import check_choice
from tool_engine.model.checks.known_fields import KnownFields
from tool_engine.model.checks.setting_kinds import check_switch
from tool_engine.model.json.data import Data


class ExecutionPolicy(str, Enum):
    """When the user is asked before a call runs, from the loosest to the strictest."""

    AUTO = "auto"
    ASK_ONCE = "ask_once"
    """The first time for the same tool with the same arguments."""
    ASK_ALWAYS = "ask_always"
    DENY = "deny"


class ResultPolicy(str, Enum):
    """When the user is asked before the model reads a result, from loosest to strictest."""

    NEVER = "never"
    ON_ERROR = "on_error"
    ALWAYS = "always"


OLDER_WORDS: Final = {"public": "auto", "moderate": "ask_once", "sensitive": "ask_always"}
"""Words of an older format, and the policy of a call that each means. X3, U34."""


APPROVER: Final = "approver"
"""The `decided_by` of a call whose decision does not say by whom it is."""
POLICY: Final = "policy"
"""The `decided_by` of a call that a definition, a group or a session forbids."""
RESULTS_INSIDE: Final = "results_inside"
"""The key of `result.metadata` for definitions' rules on results that it may reveal."""


class Permission(msgspec.Struct, Data, frozen=True, kw_only=True, gc=False, metaclass=KnownFields):
    """The permission set at one place; None: unset, the next place decides."""

    execution: ExecutionPolicy | None = None
    result: ResultPolicy | None = None
    client_may_answer: bool = False
    """Of a tool's definition alone: whether the client of a server, which may be a program, may
    answer for the person who is asked before a call runs, where the server lets clients answer."""

    def __post_init__(self) -> None:
        for name, kind in (("execution", ExecutionPolicy), ("result", ResultPolicy)):
            value = getattr(self, name)
            if value is not None:
                value = value.replace("-", "_") if type(value) is str else value
                if kind is ExecutionPolicy and type(value) is str:
                    value = OLDER_WORDS.get(value, value)
                check_choice(name, value, [each.value for each in kind])
                msgspec.structs.force_setattr(self, name, kind(value))
        check_switch("client_may_answer", self.client_may_answer)


def check_no_client(permission: Permission | None, where: str) -> None:
    """Raise `ConfigurationError` for what only a tool's definition may say."""
    if permission is not None and permission.client_may_answer:
        raise ConfigurationError(
            f"{where} cannot let clients answer; write client_may_answer into the definition of "
            "each tool whose clients may"
        )
