"""What distinguishes one engine from another in every process?"""

from __future__ import annotations

import os

from tool_engine.config import ToolEngineConfig
from tool_engine.model.settings.databases import checked_sources
from tool_engine.trusted import folder_of_now


def describe_engine(config: ToolEngineConfig) -> object:
    """Return what distinguishes an engine with these settings from others, as JSON."""
    if config.name is not None:
        return ["name", config.name]
    # By its path, which stays the same where a link leads to the newest release.
    folder = os.path.normpath(os.path.join(folder_of_now(), config.tools_directory))  # noqa: PTH118 - follows no link
    # Without passwords, since they change.
    databases = {
        name: each.to_dict()["url"] for name, each in checked_sources(config.sources).items()
    }
    return ["folder", folder, databases]
