"""Are the settings the documented ones, and is every impossible value refused at once?"""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec
import pytest

from tool_engine import (
    BreakerPolicy,
    ConcurrencyConfig,
    ConfigurationError,
    KeyLimits,
    ToolCallConfig,
    ToolEngine,
    ToolEngineConfig,
    ToolExecutionContext,
    ToolRate,
)
from tool_engine.catalog.loader import ToolConfigLoader
from tool_engine.model.settings.retention import RecordRetention


def test_engine_defaults() -> None:
    """K48: the engine's settings, in the document's order and with its defaults."""
    config = ToolEngineConfig()
    assert config.tools_directory == "tools"
    assert (config.auto_reload, config.reload_interval) == (True, 5.0)
    assert (config.watch_for_changes, config.strict_validation) == (False, False)
    assert ToolEngineConfig("x", False, 1.0, True, True).tools_directory == "x"
    assert config.concurrency == ConcurrencyConfig()


def test_concurrency_defaults() -> None:
    """K33: the limits, in the document's order and with its defaults."""
    config = ConcurrencyConfig()
    assert (config.max_concurrent, config.queue_size, config.default_timeout) == (10, 100, 30.0)
    assert (config.strategy, config.bucket_limits) == ("fifo", {})
    assert ConcurrencyConfig(1, 2, 3.0, "reject", {"http": 1}).strategy == "reject"
    assert config.bypass_caller_types == frozenset({"workflow_node"})


def test_defaults_are_not_shared() -> None:
    """K33: two configurations do not share their limits."""
    first = ConcurrencyConfig()
    first.bucket_limits["http"] = 1
    assert ConcurrencyConfig().bucket_limits == {}


def test_bypass_types_become_a_set() -> None:
    """X11: the bypass set is configurable, from any collection."""
    config = ConcurrencyConfig(bypass_caller_types=["a", "b"])  # type: ignore[arg-type]
    assert config.bypass_caller_types == frozenset({"a", "b"})
    assert ConcurrencyConfig(bypass_caller_types=frozenset()).bypass_caller_types == frozenset()


def test_directory_may_be_a_path(tmp_path: Path) -> None:
    """K48: a `Path` is as good as a text."""
    config = ToolEngineConfig(tools_directory=tmp_path)  # type: ignore[arg-type]
    assert config.tools_directory == str(tmp_path)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("max_concurrent", 0, "max_concurrent must be a whole number >= 1, got 0"),
        ("max_concurrent", True, "max_concurrent must be a whole number"),
        ("max_concurrent", 1.5, "max_concurrent must be a whole number"),
        ("queue_size", -1, "queue_size must be a whole number >= 0, got -1"),
        ("default_timeout", 0, "default_timeout must be a positive, finite number"),
        ("default_timeout", float("inf"), "default_timeout must be a positive, finite"),
        ("default_timeout", float("nan"), "default_timeout must be a positive, finite"),
        ("default_timeout", "30", "default_timeout must be a positive, finite"),
        ("default_timeout", True, "default_timeout must be a positive, finite"),
        ("strategy", "fifoo", "did you mean 'fifo'"),
        ("strategy", "zzz", "must be one of fifo, priority, fair, reject, got 'zzz'$"),
        ("strategy", ["fifo"], r"must be one of fifo, priority, fair, reject, got \['fifo'\]"),
        ("bucket_limits", [("http", 1)], "bucket_limits must map names to limits, got"),
        ("bucket_limits", {"http": -3}, r"bucket_limits\['http'\] must be a whole number >= 1"),
        ("bucket_limits", {"": 1}, "a name in bucket_limits must be a non-empty string, got ''"),
        ("bucket_limits", {3: 1}, "a name in bucket_limits must be a non-empty string, got 3"),
        ("queue_timeout", -1, "queue_timeout must be a positive, finite number"),
        ("aging_interval", 0, "aging_interval must be a positive, finite number"),
        ("max_zombies", 0, "max_zombies must be a whole number >= 1"),
        (
            "bypass_caller_types",
            "workflow_node",
            "must be a set of caller types, got 'workflow_node'",
        ),
        ("bypass_caller_types", 5, "must be a set of caller types, got 5"),
        ("bypass_caller_types", [["a"]], "must be a set of caller types"),
        (
            "bucket_queue_sizes",
            {"http": -1},
            r"bucket_queue_sizes\['http'\] must be a whole number",
        ),
        ("bucket_queue_sizes", 5, "bucket_queue_sizes must map names to limits, got 5"),
        ("bucket_rates", "10/s", "bucket_rates must map names to rates, got '10/s'"),
        ("bucket_rates", {"": "10/s"}, "a name in bucket_rates must be a non-empty string"),
        (
            "bucket_rates",
            {"http": "10"},
            r"bucket_rates\['http'\] is not a rate: '10'; write it as 10/s, 100/min, 1000/h or",
        ),
        ("bucket_rates", {"http": 10}, r"bucket_rates\['http'\] is not a rate: 10; write it as"),
        ("bucket_rates", {"http": "5/0s"}, r"not a rate: '5/0s'; write it as"),
        ("bucket_rates", {"http": "5/1.2.3s"}, r"not a rate: '5/1.2.3s'; write it as"),
        ("bucket_rates", {"http": f"1/{'9' * 400}d"}, "not a rate"),
        ("breakers", ["http"], r"breakers must map names to breakers, got \['http'\]"),
        ("breakers", {2: {}}, "a name in breakers must be a non-empty string, got 2"),
        (
            "breakers",
            {"http": 5},
            r"breakers\['http'\] must be a BreakerPolicy or a mapping of its",
        ),
        (
            "breakers",
            {"http": {"failurs": 1}},
            r"breakers\['http'\] has no field 'failurs'; did you",
        ),
        ("breakers", {"http": {"x": 1}}, "no field 'x'; it has failures, reset_after, probes$"),
        ("breakers", {"http": {3: 1}}, "no field 3; it has"),
        ("breakers", {"http": {"failures": 0}}, r"breakers\['http'\].failures must be a whole"),
        (
            "breakers",
            {"http": {"reset_after": -1}},
            r"breakers\['http'\].reset_after must be a pos",
        ),
        (
            "breakers",
            {"http": {"probes": True}},
            r"breakers\['http'\].probes must be a whole number",
        ),
        ("max_bucket_pause", 0, "max_bucket_pause must be a positive, finite number of seconds"),
        ("slot_ttl", 0, "slot_ttl must be a positive, finite number of seconds, got 0"),
        ("slot_ttl", "1", "slot_ttl must be a positive, finite number of seconds, got '1'"),
        ("key_limits", 2, "key_limits must be a KeyLimits or a mapping of its fields, got 2"),
        ("key_limits", {"limt": 2}, "key_limits has no field 'limt'; did you mean 'limit'"),
        ("key_limits", {"key": "conversation"}, "did you mean 'conversation_id'"),
        (
            "key_limits",
            {"key": "params"},
            "key_limits.key must be one of conversation_id, caller_id",
        ),
        ("key_limits", {"limit": 0}, "key_limits.limit must be a whole number >= 1, got 0"),
        ("key_limits", {"queue_size": -1}, "key_limits.queue_size must be a whole number >= 0"),
        ("key_limits", {"overrides": 10}, "key_limits.overrides must map names to limits, got 10"),
        (
            "key_limits",
            {"overrides": {"vip": 0}},
            r"overrides\['vip'\] must be a whole number >= 1",
        ),
        (
            "key_limits",
            {"overrides": {"": 1}},
            "a name in key_limits.overrides must be a non-empty",
        ),
        ("key_limits", {"weights": [1]}, r"key_limits.weights must map names to shares, got \[1\]"),
        (
            "key_limits",
            {"weights": {"vip": 0}},
            r"weights\['vip'\] must be a positive, finite number",
        ),
        ("key_limits", {"weights": {"vip": True}}, r"weights\['vip'\] must be a positive, finite"),
        ("key_limits", {"weights": {"vip": "2"}}, r"weights\['vip'\] must be a positive, finite"),
        ("key_limits", {"weights": {1: 2}}, "a name in key_limits.weights must be a non-empty"),
    ],
)
def test_impossible_limits(field: str, value: Any, message: str) -> None:
    """C13, U4: a limit that cannot be is refused on construction, with the number and the cure."""
    with pytest.raises(ConfigurationError, match=message):
        ConcurrencyConfig(**{field: value})


def test_key_limits() -> None:
    """C14, C15: two slots per conversation, ten for a VIP, as a value or as a mapping."""
    limits = KeyLimits(limit=2, overrides={"vip": 10}, weights={"vip": 2.5}, queue_size=0)
    assert (limits.key, limits.limit_of("vip"), limits.limit_of("c1")) == ("conversation_id", 10, 2)
    assert KeyLimits().limit_of("c1") is None
    mapping = {"limit": 2, "overrides": {"vip": 10}, "weights": {"vip": 2.5}, "queue_size": 0}
    assert ConcurrencyConfig(key_limits=mapping).key_limits == limits  # type: ignore[arg-type]
    assert ConcurrencyConfig(key_limits=limits).key_limits is limits


@pytest.mark.parametrize(
    ("settings", "key", "has_keys"),
    [
        ({}, "c", False),
        ({"strategy": "fair"}, "c", True),
        ({"key_limits": KeyLimits()}, "c", True),
        ({"key_limits": KeyLimits(key="caller_id")}, "a", True),
        ({"key_limits": KeyLimits(key="workflow_id")}, None, True),
        ({"key_limits": KeyLimits(key="caller_type")}, "conversation_agent", True),
    ],
)
def test_key_of_a_caller(settings: dict[str, Any], key: str | None, has_keys: bool) -> None:
    """C14, C15: the configured field of the context; the conversation, where none is."""
    config = ConcurrencyConfig(**settings)
    context = ToolExecutionContext.for_conversation("a", "c")
    assert (config.key_of(context), config.has_keys) == (key, has_keys)


def test_limits_of_buckets() -> None:
    """C6, C17, C20: per bucket a queue, a rate as text, and a breaker as a mapping."""
    config = ConcurrencyConfig(
        bucket_queue_sizes={"http": 0},
        bucket_rates={"http": "5/2s", "ai": ToolRate(1, 60.0)},  # type: ignore[dict-item]
        breakers={"http": {"failures": 3}, "ai": BreakerPolicy(probes=2)},  # type: ignore[dict-item]
        max_bucket_pause=5,
        slot_ttl=60,
    )
    assert config.bucket_queue_sizes == {"http": 0}
    assert config.bucket_rates == {"http": ToolRate(5, 2.0), "ai": ToolRate(1, 60.0)}
    assert config.breakers == {"http": BreakerPolicy(3, 30.0, 1), "ai": BreakerPolicy(5, 30.0, 2)}
    defaults = ConcurrencyConfig()
    assert (defaults.key_limits, defaults.bucket_queue_sizes) == (None, {})
    assert (defaults.bucket_rates, defaults.breakers) == ({}, {})
    assert (defaults.max_bucket_pause, defaults.slot_ttl) == (60.0, None)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("bucket_limits", 1),
        ("bucket_queue_sizes", 1),
        ("bucket_rates", ToolRate(1, 1.0)),
        ("breakers", BreakerPolicy()),
    ],
)
def test_given_mappings_are_copied(field: str, value: Any) -> None:
    """K33: whoever keeps a mapping that they passed cannot slip in what was never checked."""
    given = {"http": value}
    for mapping in (given, MappingProxyType(given)):
        settings: dict[str, Any] = {field: mapping}
        config = ConcurrencyConfig(**settings)
        given["http"] = "wrong"
        assert getattr(config, field) == {"http": value}
        given["http"] = value
    getattr(ConcurrencyConfig(), field)["http"] = value
    assert getattr(ConcurrencyConfig(), field) == {}


@pytest.mark.parametrize("field", ["overrides", "weights"])
def test_given_key_mappings_are_copied(field: str) -> None:
    """C14: the same for the limits of keys."""
    given: dict[str, Any] = {"vip": 2}
    settings: dict[str, Any] = {field: given}
    limits = KeyLimits(**settings)
    given["vip"] = "wrong"
    assert getattr(limits, field) == {"vip": 2}


def test_a_changed_configuration_is_checked_again() -> None:
    """C18: `replace` makes another configuration under the same rules."""
    config = ConcurrencyConfig(bucket_rates={"http": ToolRate(1, 1.0)})
    changed = msgspec.structs.replace(config, max_concurrent=3)
    assert (changed.max_concurrent, changed.bucket_rates) == (3, config.bucket_rates)
    with pytest.raises(ConfigurationError, match="breakers must map names to breakers"):
        msgspec.structs.replace(config, breakers=3)


def test_optional_limits() -> None:
    """C7, C10: no bound on waiting, and a bound on zombies, are allowed."""
    config = ConcurrencyConfig(queue_timeout=None, max_zombies=2)
    assert (config.queue_timeout, config.max_zombies) == (None, 2)


TOOL = ToolConfigLoader().load_text("name: echo\ndescription: Repeats.\nentry: {type: builtin}")


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("tools_directory", "", "tools_directory must be a path"),
        ("reload_interval", 0, "reload_interval must be a positive, finite number"),
        ("close_timeout", -1, "close_timeout must be a positive, finite number"),
        ("max_records", 0, "max_records must be a whole number >= 1"),
        ("reload_policy", "strickt", "warn, strict, got 'strickt'; did you mean 'strict'"),
        ("keep_generations", 0, "keep_generations must be a whole number >= 1"),
        ("lock", "on", "lock must be one of off, enforce, got 'on'"),
        ("lock", True, "lock must be one of off, enforce, got True"),
        ("lock_file", "", "lock_file must be a path"),
        ("concurrency", 3, "concurrency must be a ConcurrencyConfig"),
        ("mcp_servers", [object()], "mcp_servers must be the path of a .mcp.json"),
        ("mcp_servers", [TOOL], "mcp_servers must be the path of a .mcp.json"),
    ],
)
def test_impossible_settings(field: str, value: Any, message: str) -> None:
    """K48: a setting that cannot be is refused on construction."""
    with pytest.raises(ConfigurationError, match=message):
        ToolEngineConfig(**{field: value})


SETTINGS: dict[str, Any] = {
    "engine": ToolEngineConfig,
    "concurrency": ConcurrencyConfig,
    "keys": KeyLimits,
    "breaker": BreakerPolicy,
    "retention": RecordRetention,
    "session": ToolCallConfig,
    "whole engine": ToolEngine,
}


@pytest.mark.parametrize(
    ("kind", "named", "words"),
    [
        ("engine", {"strict_validation": "false"}, "must be True or False, got 'false'; write F"),
        ("engine", {"auto_reload": "no"}, "auto_reload must be True or False"),
        ("engine", {"watch_for_changes": 1}, "write True"),
        ("engine", {"recursive": "perhaps"}, "got 'perhaps'$"),
        ("engine", {"tools_directory": None}, "tools_directory must be a path"),
        ("engine", {"cache_directory": b"x"}, "cache_directory must be a path"),
        ("engine", {"name": " "}, "name must be a text that is not empty"),
        ("engine", {"name": 3}, "name must be a text that is not empty"),
        ("engine", {"tools_dir": "x"}, "no field 'tools_dir'; did you mean 'tools_directory'"),
        ("concurrency", {"max_concurent": 3}, "did you mean 'max_concurrent'"),
        ("concurrency", {"xyz": 3}, "no field 'xyz'; it has max_concurrent, queue_size"),
        ("concurrency", {"max_concurrent": -(10**400)}, "got one of more than 300 digits"),
        ("keys", {"limits": 3}, "did you mean 'limit'"),
        ("breaker", {"failure": 3}, "did you mean 'failures'"),
        ("retention", {"age": 3}, "RecordRetention has no field 'age'"),
        ("session", {"enable": True}, "did you mean 'enabled'"),
        ("whole engine", {"concurrency": 3}, "write ConcurrencyConfig"),
        ("whole engine", {"concurrency": {"max": 3}}, "concurrency has no field 'max'"),
    ],
)
def test_what_people_write_by_mistake(kind: str, named: dict[str, Any], words: str) -> None:
    """K4: a name or a kind that is none is a ConfigurationError with the cure, never a TypeError.

    Looked at: every class whose values people write by hand, and the arguments of the engine.
    """
    with pytest.raises(ConfigurationError, match=words):
        SETTINGS[kind](**named)


def test_settings_are_values_like_others() -> None:
    """Settings can be copied, pickled and changed by `replace`, with the same checks."""
    config = ToolEngineConfig(Path("a"), concurrency=ConcurrencyConfig(3))  # type: ignore[arg-type]
    assert config.tools_directory == "a"
    assert pickle.loads(pickle.dumps(config)) == copy.deepcopy(config) == config  # noqa: S301 - our own
    with pytest.raises(ConfigurationError, match="True or False"):
        msgspec.structs.replace(config, recursive="yes")
    with pytest.raises(ConfigurationError, match="cannot be made: Extra positional"):
        SETTINGS["engine"]("a", True, 5.0, False, False, True)


def test_every_switch_is_checked() -> None:
    """K48: no boolean setting takes a text: `preload="false"` was True. Looked at: all fields."""
    fields = msgspec.structs.fields(ToolEngineConfig)
    switches = [each.name for each in fields if each.type is bool]
    assert len(switches) >= 5
    for name in switches:
        text: dict[str, Any] = {name: "false"}
        with pytest.raises(ConfigurationError, match=f"{name} must be True or False.*write False"):
            ToolEngineConfig(**text)


@pytest.mark.parametrize("file", ["calls.db", "/var/calls.sqlite3", "../here/calls-1.sqlite"])
def test_the_name_of_a_file_is_written_as_a_url(file: str) -> None:
    """What the message writes out is taken; what is no file's name, and may be secret, is not."""
    with pytest.raises(ConfigurationError, match="got no scheme; write sqlite:///") as error:
        ToolEngineConfig(records=file)
    written = str(error.value).partition("; write ")[2]
    assert written.endswith(file)
    ToolEngineConfig(records=written)
    with pytest.raises(ConfigurationError, match=r"write it as sqlite:///shop\.db") as error:
        ToolEngineConfig(records="hunter2@host/calls")
    assert "hunter2" not in str(error.value)


@pytest.mark.parametrize(
    "fleet", ["ray://", "ray://head", "ray://:10001", "ray://head:0", "ray://head:65536", "locals"]
)
def test_the_address_of_a_fleet_is_whole(fleet: str) -> None:
    """Ray would look for half of one for half a minute."""
    with pytest.raises(ConfigurationError, match="or None, got"):
        ToolEngineConfig(fleet=fleet)
    for right in ("ray://head:10001", "ray://[::1]:10001", "auto", "local", None):
        ToolEngineConfig(fleet=right)
