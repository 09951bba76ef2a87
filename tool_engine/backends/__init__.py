"""Stage 4: where an executor runs, and until when."""

from tool_engine.backends.local import LocalBackend

__all__ = ["LocalBackend"]
