"""How does work run under a deadline in this process?"""

from tool_engine.backends.local import LocalBackend

__all__ = ["LocalBackend"]
