"""What can be imported from `tool_engine.session`?"""

from __future__ import annotations

import subprocess
import sys

import pytest

from tool_engine import session


def test_every_name_is_there() -> None:
    """Each name of `__all__` is found on first use, and listed; no other is."""
    for name in session.__all__:
        assert getattr(session, name) is not None
    assert set(session.__all__) <= set(dir(session))
    missing = "nothing"
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        getattr(session, missing)


def test_a_program_without_conversations_pays_for_none() -> None:
    """Neither the engine nor the package itself loads what only a conversation needs."""
    code = """
import sys
import tool_engine
import tool_engine.session as session
loaded = {each for each in sys.modules if each.startswith("tool_engine.session.")}
assert not loaded, loaded
assert callable(session.prefix)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
