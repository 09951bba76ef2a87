"""Are the settings the documented ones, and is every impossible value refused at once?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tool_engine import ConcurrencyConfig, ConfigurationError, ToolEngineConfig


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
        ("strategy", "zzz", "must be one of fifo, priority, reject, got 'zzz'$"),
        ("bucket_limits", [("http", 1)], "bucket_limits must map bucket names to limits"),
        ("bucket_limits", {"http": -3}, r"bucket_limits\['http'\] must be a whole number >= 1"),
        ("bucket_limits", {"": 1}, "a bucket name must be a non-empty string"),
        ("bucket_limits", {3: 1}, "a bucket name must be a non-empty string"),
        ("queue_timeout", -1, "queue_timeout must be a positive, finite number"),
        ("aging_interval", 0, "aging_interval must be a positive, finite number"),
        ("max_zombies", 0, "max_zombies must be a whole number >= 1"),
        ("bypass_caller_types", "workflow_node", "must be a set of caller types"),
    ],
)
def test_impossible_limits(field: str, value: Any, message: str) -> None:
    """C13, U4: a limit that cannot be is refused on construction, with the number and the cure."""
    with pytest.raises(ConfigurationError, match=message):
        ConcurrencyConfig(**{field: value})


def test_optional_limits() -> None:
    """C7, C10: no bound on waiting, and a bound on zombies, are allowed."""
    config = ConcurrencyConfig(queue_timeout=None, max_zombies=2)
    assert (config.queue_timeout, config.max_zombies) == (None, 2)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("tools_directory", "", "tools_directory must name a folder"),
        ("reload_interval", 0, "reload_interval must be a positive, finite number"),
        ("close_timeout", -1, "close_timeout must be a positive, finite number"),
        ("max_records", 0, "max_records must be a whole number >= 1"),
        ("concurrency", {"max_concurrent": 1}, "concurrency must be a ConcurrencyConfig"),
    ],
)
def test_impossible_settings(field: str, value: Any, message: str) -> None:
    """K48: a setting that cannot be is refused on construction."""
    with pytest.raises(ConfigurationError, match=message):
        ToolEngineConfig(**{field: value})
