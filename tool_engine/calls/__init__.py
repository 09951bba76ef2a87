"""What happens to one call, from its name to its result?"""

from __future__ import annotations

from tool_engine.calls.pipeline import Pipeline

__all__ = ["Pipeline"]
