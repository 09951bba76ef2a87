"""What does a call ask the controller for, and by which key does it collide?"""

from __future__ import annotations

import json
import os
from importlib import import_module
from itertools import count
from typing import Any, Final, NamedTuple

import msgspec

from tool_engine.config import ConcurrencyConfig
from tool_engine.errors import ConfigurationError
from tool_engine.model.call import ToolExecutionContext, check_timeout
from tool_engine.model.checks.bounds import check_count
from tool_engine.model.context_check import check_context
from tool_engine.model.settings.concurrency import (
    DEFAULT_PRIORITY,
    LARGEST,
    BreakerPolicy,
    CollisionPolicy,
    ToolRate,
)
from tool_engine.model.tool import Tool

DEFAULT_BUCKET: Final = "__default__"
_MINDS_LENT: Final = (
    CollisionPolicy.REJECT,
    CollisionPolicy.CANCEL_NEWEST,
    CollisionPolicy.CANCEL_IN_PROGRESS,
)
_SECRET: Final = os.urandom(16)
"""Without it, a reader of a short secret's digest could find the secret by trying."""
_LONGEST_KEY: Final = 64
"""Characters of a value that processes name as it is."""
_editions: Final = count(1)
_encode: Final = msgspec.msgpack.Encoder(order="deterministic", enc_hook=repr).encode


class HiddenValue(NamedTuple):
    """What calls of a tool share in all processes: its text is one for people, as `digest_of`."""

    data: bytes

    def __str__(self) -> str:
        return hash_value(self.data, _SECRET)


class OwnKey(NamedTuple):
    """A key of a tool that only one conversation has: another one's may have the same name."""

    owner: int
    value: Any

    def __str__(self) -> str:
        return f"{self.value} (own tool {self.owner})"


class AdmissionRequest(msgspec.Struct):
    """What a call needs to run; one request serves all calls of a tool that are alike."""

    bucket: str = DEFAULT_BUCKET
    priority: int = DEFAULT_PRIORITY
    weight: int = 1
    lane: Any = DEFAULT_BUCKET
    """Names the lane to wait in: the line alone, or the line and the keys."""
    line: str = DEFAULT_BUCKET
    """The bucket's own line, or that of a tool with a rate or a breaker."""
    rate: ToolRate | None = None
    breaker: BreakerPolicy | None = None
    is_bypass: bool = False
    """Whether the limits do not apply to the caller."""
    timeout: float | None = None
    """Seconds to wait at most; None: the controller's `queue_timeout`."""
    parent: Any = None
    """The slot of the call that makes this one; its place in line is inherited."""
    key: str | None = None
    """What the call shares with others of its conversation, say: see `KeyLimits`."""
    shared: tuple[tuple[str, str], ...] = ()
    """Its keys whose limits processes share: of which field, and what value."""
    tool_name: str | None = None
    tool_key: Any = None
    """What calls of the tool must have in common to count against `tool_key_limit`."""
    tool_key_limit: int | None = None
    collision: CollisionPolicy = CollisionPolicy.QUEUE
    call_id: str | None = None
    """The call that asks without an engine, as its context names it."""
    owner: int | None = None
    """Distinguishes tools of one name that only one conversation has; None: one of the catalog."""
    is_shared: bool = False
    """Whether what its tool's definition says of limits holds for all processes of the cluster."""
    edition: int = 0
    """Distinguishes a tool's newest definition from older ones; 0: no tool's."""
    spot: Any = None
    """The `Lane` that the controller found for it last."""

    @property
    def limits(self) -> tuple[ToolRate | None, BreakerPolicy | None, int | None]:
        """Rate, breaker, and the limit of each key: what its tool's definition says of them."""
        return self.rate, self.breaker, self.tool_key_limit

    @property
    def minds_lent(self) -> bool:
        """Whether calls in progress count against the tool's key even while their slots are lent.

        Only for a policy that refuses or ends calls: one that waits could wait for itself.
        """
        return self.collision in _MINDS_LENT and self.tool_key is not None

    @classmethod
    def of(
        cls,
        config: ConcurrencyConfig,
        bucket: str | None = None,
        context: ToolExecutionContext | None = None,
        priority: int | None = None,
        key: str | None = None,
        weight: int = 1,
        timeout: float | None = None,
    ) -> AdmissionRequest:
        """A request that no tool stands behind.

        Raises:
            ConfigurationError: A value is out of range.
        """
        if isinstance(weight, bool) or not isinstance(weight, int) or weight < 1:
            raise ConfigurationError(f"weight must be a whole number >= 1, got {weight!r}")
        if priority is not None:
            check_count("priority", priority, minimum=-LARGEST, maximum=LARGEST)
        if timeout is not None:
            check_timeout("timeout", timeout)
        is_bypass = False
        if context is not None and check_context(context):
            priority = context.priority if priority is None else priority
            key = config.key_of(context) if key is None else key
            is_bypass = context.caller_type in config.bypass_caller_types
        name = DEFAULT_BUCKET if bucket is None else bucket
        shared = _find_shared_keys(config, context, key)
        return cls(
            bucket=name,
            priority=DEFAULT_PRIORITY if priority is None else priority,
            weight=weight,
            lane=_choose_lane(config, name, key, shared=shared),
            line=name,
            is_bypass=is_bypass,
            timeout=timeout,
            key=key,
            shared=shared,
            call_id=None if context is None else context.call_id,
        )

    @classmethod
    def for_tool(
        cls, tool: Tool, config: ConcurrencyConfig, owner: int | None = None
    ) -> AdmissionRequest:
        """What an ordinary call of `tool` asks for, no matter which caller makes it.

        Args:
            tool: The tool.
            config: The limits.
            owner: The number of what runs it, of a tool that only one conversation has.
        """
        wants = tool.concurrency
        line = tool.bucket
        if tool.rate or wants.breaker:
            mark = "" if owner is None else f"\0{owner}"
            # Not with the limits themselves: what was counted stays the tool's when they change.
            line = f"{line}\0{tool.name}{mark}"
        is_single_flight = wants.collision is CollisionPolicy.SINGLE_FLIGHT
        return cls(
            bucket=tool.bucket,
            priority=wants.priority,
            weight=wants.weight,
            is_bypass=ToolExecutionContext().caller_type in config.bypass_caller_types,
            lane=_choose_lane(config, line),
            line=line,
            rate=tool.rate,
            breaker=wants.breaker,
            timeout=wants.queue_timeout,
            tool_name=tool.name,
            tool_key_limit=None if is_single_flight else wants.key_limit,
            collision=wants.collision,
            owner=owner,
            # Two conversations may have different tools of one name.
            is_shared=config.cluster is not None and wants.scope == "cluster" and owner is None,
            edition=next(_editions),
        )

    def for_caller(
        self,
        config: ConcurrencyConfig,
        context: ToolExecutionContext,
        tool_key: Any = None,
        parent: Any = None,
    ) -> AdmissionRequest:
        """The same request on behalf of one caller."""
        priority = self.priority if context.priority is None else context.priority
        key = config.key_of(context)
        if self.owner is not None and tool_key is not None:
            tool_key = OwnKey(self.owner, tool_key)
        shared = _find_shared_keys(config, context, key)
        return msgspec.structs.replace(
            self,
            priority=priority,
            key=key,
            shared=shared,
            tool_key=tool_key,
            parent=parent,
            is_bypass=context.caller_type in config.bypass_caller_types,
            lane=_choose_lane(config, self.line, key, _qualify_key(self, tool_key), shared=shared),
            spot=None,
        )

    def under(self, config: ConcurrencyConfig) -> AdmissionRequest:
        """The same request after a change of the configuration."""
        own = _qualify_key(self, self.tool_key)
        lane = _choose_lane(config, self.line, self.key, own, shared=self.shared)
        return msgspec.structs.replace(self, lane=lane, spot=None)


def _find_shared_keys(
    config: ConcurrencyConfig, context: ToolExecutionContext | None, key: str | None
) -> tuple[tuple[str, str], ...]:
    """Return the keys of a call whose limits processes share: of which field, and what value."""
    if config.cluster is None or not config.cluster.key_limits:
        return ()
    own = "conversation_id" if config.key_limits is None else config.key_limits.key
    found = {kind: getattr(context, kind, None) for kind in sorted(config.cluster.key_limits)}
    if own in found:
        found[own] = key
    return tuple(
        (kind, shorten_value(str(value))) for kind, value in found.items() if value is not None
    )


def shorten_value(value: str) -> str:
    """Return what stands for the value of a key in the database of a cluster."""
    # One half of a surrogate pair cannot be written.
    if len(value) <= _LONGEST_KEY and value == value.encode(errors="ignore").decode():
        return value
    hashlib = import_module("hashlib")
    digest: str = hashlib.sha256(value.encode(errors="surrogatepass")).hexdigest()
    return digest


def _choose_lane(
    config: ConcurrencyConfig,
    line: str,
    key: str | None = None,
    own: Any = None,
    *,
    shared: tuple[tuple[str, str], ...] = (),
) -> Any:
    lane: Any
    if config.strategy == "fair":
        lane = (line, key, own, "fair")
    elif config.has_keys:
        lane = (line, key, own)
    else:
        lane = line if own is None else (line, None, own)
    return (lane, shared) if shared else lane


def _qualify_key(request: AdmissionRequest, tool_key: Any) -> Any:
    return None if tool_key is None else (request.tool_name, tool_key)


def digest_of(value: Any) -> str:
    """Stands for an argument in a key: keys are shown in snapshots, and arguments may be secret."""
    return hash_value(_pack_value(value), _SECRET)


def _pack_value(value: Any) -> bytes:
    try:
        return _encode(value)
    except OverflowError:  # MessagePack has no whole numbers beyond 64 bits
        return json.dumps(value, sort_keys=True, default=repr).encode()


def hash_value(data: bytes, secret: bytes) -> str:
    """Return what stands for an argument: who has not the secret cannot find that by trying."""
    # Reading definitions needs it as well: an engine without any loads it with the first key.
    hashlib = import_module("hashlib")
    digest: str = hashlib.blake2b(data, digest_size=12, key=secret).hexdigest()
    return digest


def tool_key_of(
    tool: Tool,
    context: ToolExecutionContext,
    arguments: dict[str, Any],
    *,
    is_shared: bool = False,
) -> Any:
    """The value of the key that the definition names for one call; None: it has none.

    `is_shared` says that other processes are to have the same value for it.
    """
    key = tool.concurrency.key
    if key is None:
        return None
    if key == "tool":
        return ""
    if not key.startswith("params"):
        return getattr(context, key)
    value = arguments if key == "params" else arguments.get(key.removeprefix("params."))
    if value is None:
        return None
    return HiddenValue(_pack_value(value)) if is_shared else digest_of(value)
