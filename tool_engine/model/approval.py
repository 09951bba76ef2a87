"""What is a user asked to consent to, and what did they say?"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import msgspec

from tool_engine.errors import ConfigurationError
from tool_engine.model.checks.known_fields import KnownFields
from tool_engine.model.json.data import Data, show_repr
from tool_engine.model.json.returned_value import copy_plain, safe_repr

if TYPE_CHECKING:
    from tool_engine.model.tool import Tool

_ALWAYS: Final = ("call", "tool")
_SPOKEN: Final = ("description", "preview", "result")
"""The fields whose texts may contain a secret argument."""


class ApprovalRequest(msgspec.Struct, Data, frozen=True, kw_only=True):
    """What a user is asked to consent to."""

    token: str
    """The unguessable name of the request; good for one answer."""
    session_id: str
    kind: str = "execution"
    """`execution`: may the call run; `result`: may the model read its result."""
    tool_name: str
    tool_version: str
    definition_hash: str
    """Empty for a `Tool` that was built by hand."""
    params: dict[str, Any]
    """The arguments, whole: every reference replaced, every default filled in."""
    effect: str = "unknown"
    """The effect that the tool's definition declares: read, write or unknown."""
    title: str = ""
    """What the tool's definition calls it for people; empty: nothing."""
    description: str = ""
    result: str | None = None
    """Of a `result` request: the text that the model would read."""
    error_type: str | None = None
    """Of a `result` request: how the call failed; None: it succeeded."""
    asked_at: float
    expires_at: float
    """Unix time, in seconds."""
    call_id: str = ""
    """The call that it is about."""
    conversation_id: str = ""
    """The conversation of that call; empty: none."""
    principal: str = ""
    """Who is behind that call; empty: not known, and no decision holds for them elsewhere."""
    is_once: bool = False
    """True if the answer also holds for the same call later on, unless it says otherwise."""
    secret_names: tuple[str, ...] = ()
    """Arguments, and parts of them, that are not to be shown: see `approval.describe`."""
    preview: str | None = None
    """What would change, often as a diff, with secrets hidden; None: unknown."""
    is_nested: bool = False
    """True if a tool makes the call, and not the conversation itself."""
    called_name: str = ""
    """The name that the model called: the one that the tool has in its conversation, or that of the
    tool which makes this call; empty: the tool's own, or not known."""
    is_shared: bool = False
    """True if another conversation must consent too; only its own process can then allow it."""
    is_waiting: bool = False
    """True if its call waits in the process that asked, and goes on there with the answer."""
    making: str = ""
    """Identifies the version, the definition or else the fields of the tool, and what is known of
    the code that runs it; empty: the definition alone identifies it."""
    engine: str = ""
    """Identifies the engine that has the tool, the same after a restart; empty: unknown, or the
    tool belongs to the conversation alone."""
    task_id: str = ""
    """The task that made that call, or one above it; empty: none."""
    fingerprint: str = ""
    """What a remembered decision holds for: this tool, as it is made, with these arguments.
    Computed from the other fields when it is left out."""

    def __repr__(self) -> str:
        # Not even a log of errors shows the arguments, nor the token that is good for an answer.
        what = f"{self.kind} of {self.tool_name!r} {self.tool_version}"
        return f"<ApprovalRequest {what}, call {self.call_id or '?'} of {self.session_id!r}>"

    __rich_repr__ = show_repr

    def __post_init__(self) -> None:
        if not self.fingerprint:
            msgspec.structs.force_setattr(self, "fingerprint", self._own_fingerprint())

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON values, with `[hidden]` in place of secrets.

        A secret argument is hidden by its name, and where its value stands elsewhere. The token is
        not: the program that shows the question answers with it.
        """
        values = super().to_dict() | {"token": self.token}
        # By name: the vocabulary stands below what knows secrets.
        names = self.secret_names
        secrets = import_module("tool_engine.redaction").OwnSecrets(self.params, names, names)
        values |= {name: secrets.hide(values[name]) for name in _SPOKEN}
        return values | {"params": secrets.params(copy_plain(self.params))}

    @property
    def is_whole(self) -> bool:
        """True if the arguments are still those of the question.

        They are not where a storage has left secrets out, or JSON could not hold them.
        """
        return self.fingerprint == self._own_fingerprint()

    def is_about(self, tool: Tool | None) -> bool:
        """True if the tool has the version and the definition of the question."""
        return tool is not None and (tool.name, tool.version, tool.definition_hash) == (
            self.tool_name,
            self.tool_version,
            self.definition_hash,
        )

    def _own_fingerprint(self) -> str:
        return fingerprint_of(self.tool_name, self.making or self.definition_hash, self.params)


class ApprovalDecision(msgspec.Struct, Data, frozen=True, kw_only=True, metaclass=KnownFields):
    """The user's answer to a request.

    Raises:
        ConfigurationError: `is_approved` is neither True nor False: a word such as "no" is no no.
            The reason is no text, or `is_remembered` is none of True, False and None.
    """

    is_approved: bool
    reason: str | None = None
    """Why it was refused; reported to the model, unless a rule is silent."""
    is_remembered: bool | None = None
    """False: it holds for this one call. Otherwise it also holds for the same call later on under
    the policy `ask_once`; `ask_always` asks again anyway."""
    always: str | None = None
    """`call`: under `ask_once` it holds for the principal of the call, in all their conversations
    over this engine, until it is revoked; `tool`: likewise, for each call of this tool, whatever
    its arguments. Without a principal it is remembered as any other."""
    by: str | None = None
    """Who answered, for events and lists; not shown to the model."""

    def __post_init__(self) -> None:
        if not isinstance(self.is_approved, bool):
            raise ConfigurationError(f"is_approved must be True or False, got {self.is_approved!r}")
        for name in ("reason", "by"):
            said = getattr(self, name)
            if not (said is None or isinstance(said, str)):
                raise ConfigurationError(
                    f"{name} must be a text or None, got {safe_repr(said)[:80]}"
                )
        if not (self.is_remembered is None or isinstance(self.is_remembered, bool)):
            raise ConfigurationError(
                "is_remembered must be True, False or None, got "
                f"{safe_repr(self.is_remembered)[:80]}"
            )
        if self.always is not None and self.always not in _ALWAYS:
            raise ConfigurationError(
                f"always must be 'call', 'tool' or None, got {safe_repr(self.always)[:80]}"
            )
        if self.always is not None and self.is_remembered is False:
            raise ConfigurationError(
                "a decision cannot hold always and for one call only: leave out always, or "
                "is_remembered=False"
            )


class StandingDecision(msgspec.Struct, Data, frozen=True, kw_only=True, metaclass=KnownFields):
    """What holds for one principal in all conversations over one engine, until it is revoked."""

    decision_id: str
    """Names it, for `engine.approvals.revoke`; the same when it is decided again."""
    principal: str
    """For whom it holds."""
    engine: str
    """Identifies the engine that has the tool."""
    tool_name: str
    tool_version: str
    definition_hash: str
    params: dict[str, Any] | None = None
    """The arguments for which it holds, with secrets hidden; None: for all."""
    is_approved: bool
    reason: str | None = None
    """Why it is a no."""
    by: str | None = None
    """Who decided."""
    decided_at: float
    """Unix time, in seconds."""

    def to_decision(self) -> ApprovalDecision:
        """Return the decision about one more call."""
        return ApprovalDecision(is_approved=self.is_approved, reason=self.reason, by=self.by)


def fingerprint_of(tool_name: str, making: str, params: Mapping[str, Any]) -> str:
    """Return a text that identifies one call: no two different calls share it.

    The order of keys makes no difference; `1`, `1.0`, `True` and `"1"` do.
    """
    return _hash_texts(tool_name, making, _mark_exact(params))


def _hash_texts(*texts: Any) -> str:
    said = _written(texts)
    # Loaded by name: most programs ask for no consent.
    hashed = import_module("hashlib").sha256(said.encode("utf-8", "surrogatepass"))
    return str(hashed.hexdigest())


def standing_ids(
    principal: str, engine: str, tool_name: str, making: str, fingerprint: str
) -> tuple[str, str]:
    """Return the ids of standing decisions: on one call, and on every call of its tool.

    The arguments are fields of an `ApprovalRequest`.
    """
    whole = fingerprint_of(tool_name, f"every call of {making}", {})
    return _hash_texts(principal, engine, fingerprint), _hash_texts(principal, engine, whole)


def is_plain(value: Any) -> bool:
    """True if JSON can express a value, so that it can be recognised later."""
    if isinstance(value, Mapping):
        return all(type(key) is str and is_plain(item) for key, item in value.items())
    if isinstance(value, list | tuple):
        return all(map(is_plain, value))
    return value is None or type(value) in (bool, int, float, str)


def _mark_exact(value: Any) -> Any:
    """Mark the values that JSON would confuse with each other."""
    kind = type(value)
    if kind is str or value is None or kind is bool or kind is float:
        return value
    if kind is int:
        # As digits, a very large one could not be written.
        return ["int", f"{value:x}"]
    if isinstance(value, list | tuple):
        return ["list", *map(_mark_exact, value)]
    if isinstance(value, Mapping):
        pairs = [[_mark_exact(key), _mark_exact(item)] for key, item in value.items()]
        # No two keys are alike: their values need not be written to distinguish them.
        return ["mapping", *sorted(pairs, key=_key_of)]
    # Two of these are the same only if they are one object.
    return [kind.__qualname__, id(value)]


def _key_of(pair: list[Any]) -> str:
    return _written(pair[0])


_written: Final = json.JSONEncoder(ensure_ascii=False, check_circular=False).encode
