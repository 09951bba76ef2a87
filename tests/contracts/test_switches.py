"""A switch is True or False; a text such as "no" does not turn it on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tool_engine import (
    ConfigurationError,
    ToolConfigLoader,
    ToolEngine,
    ToolParameterValidator,
    ToolSession,
    ToolSubAgent,
)
from tool_engine.agent.models import RecordedModel, RecordingModel
from tool_engine.observability.opentelemetry import instrument
from tool_engine.protocols import get_protocol

SWITCHES = {
    "openai": ("repair", "strict"),
    "openai_responses": ("repair", "strict"),
    "anthropic": ("repair", "strict"),
    "gemini": ("repair",),
    "vcp": ("repair", "fuzzy", "skip_quoted", "is_thinking", "wrap_results"),
    "function_call": ("repair", "skip_quoted", "is_thinking"),
}
OPTIONS = [(name, option) for name, options in SWITCHES.items() for option in options]
WRONG = pytest.mark.parametrize(
    ("value", "cure"), [("no", "; write False"), ("true", "; write True"), (1, ""), (None, "")]
)


@pytest.mark.parametrize(("name", "option"), OPTIONS)
@WRONG
def test_switches_of_protocols(name: str, option: str, value: Any, cure: str) -> None:
    """`fuzzy="no"` is refused with its cure, and does not read nearly right calls.

    Looked at: the options of all protocols, and all public functions with a flag: below. The
    settings of engines, sessions, cycles and approvals were checked before.
    """
    with pytest.raises(ConfigurationError, match=f"{option} must be True or False.*{cure}"):
        get_protocol(name, **{option: value})
    for right in (True, False):
        get_protocol(name, **{option: right})


def test_the_switches_are_all_of_them() -> None:
    for name, options in SWITCHES.items():
        flags = {key for key, value in vars(get_protocol(name)).items() if type(value) is bool}
        assert {flag for flag in flags if not flag.startswith("_")} == set(options)


CALLS: dict[str, Callable[[Any, Path], Any]] = {
    "strict": lambda value, _: ToolParameterValidator(strict=value),
    "allow_aliases": lambda value, _: ToolConfigLoader(allow_aliases=value),
    "recursive": lambda value, path: ToolConfigLoader().load_directory(path, recursive=value),
    "capture_content": lambda value, _: instrument(ToolEngine(), capture_content=value),
    "overwrite": lambda value, path: RecordingModel(
        RecordedModel({"replies": []}), path / "x.json", overwrite=value
    ),
}


@pytest.mark.parametrize("name", CALLS)
@WRONG
def test_switches_of_functions(name: str, value: Any, cure: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=f"{name} must be True or False"):
        CALLS[name](value, tmp_path)


async def test_switches_of_coroutines() -> None:
    async with ToolEngine() as engine:
        with pytest.raises(ConfigurationError, match="overwrite must be True or False"):
            await ToolSession(engine, "a").save(overwrite="no")  # type: ignore[arg-type]
        with pytest.raises(ConfigurationError, match="parallel must be True or False"):
            await ToolSubAgent("helper", engine).execute_batch([], parallel="no")  # type: ignore[arg-type]
