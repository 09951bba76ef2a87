"""What can be imported from `tool_engine.protocols`?"""

from __future__ import annotations

import subprocess
import sys

import pytest

from tool_engine import protocols


def test_every_name_is_there() -> None:
    """Each name of `__all__` is found on first use, and listed; no other is."""
    for name in protocols.__all__:
        assert getattr(protocols, name) is not None
    assert set(protocols.__all__) <= set(dir(protocols))
    missing = "nothing"
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        getattr(protocols, missing)


def test_a_program_that_speaks_to_no_model_pays_for_nothing() -> None:
    """The cycle, the registry and json-repair are loaded when they are used."""
    code = """
import sys
import tool_engine.protocols as protocols
loaded = {"tool_engine.protocols.cycle", "importlib.metadata", "json_repair"} & set(sys.modules)
assert not loaded, loaded
assert callable(protocols.definitions) and callable(protocols.process_tool_calls)
assert protocols.get_protocol("openai").name == "openai"
assert "importlib.metadata" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
