"""Below which path do clients reach the app, and is it one that it can have?"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

from tool_engine.errors import ConfigurationError

_ROOT: Final = re.compile(r"(?:/[A-Za-z0-9._~-]+)*")


def check_root_path(root_path: object, paths: Collection[str]) -> str:
    """Return a path below which an app is reached.

    A proxy may cut it off or leave it: so no path of the app may begin as it does.

    Args:
        root_path: The path; empty: none.
        paths: Those of the app.

    Raises:
        ConfigurationError: It is none.
    """
    if not isinstance(root_path, str) or not _ROOT.fullmatch(root_path):
        raise ConfigurationError(
            f"root_path must be a path such as '/tools', of letters, digits and . _ ~ -, without a "
            f"slash at its end, got {root_path!r:.80}"
        )
    parts = root_path.split("/")[1:]
    if parts and parts[0] in {each.split("/")[1] for each in paths}:
        raise ConfigurationError(
            f"root_path {root_path!r:.80} begins as paths of the server itself do; choose another "
            "one, such as '/tools'"
        )
    if {".", ".."} & set(parts):
        raise ConfigurationError(f"root_path {root_path!r:.80} has dots as a part; leave them out")
    return root_path
