"""Which tool files does the demo run on and edit?"""

from __future__ import annotations

import re
import shutil
from importlib.resources import files
from pathlib import Path
from typing import Final

from tool_engine.catalog.definition.starter import starter
from tool_engine.cli.failures import CommandError
from tool_engine.cli.settings import Settings

NEEDED: Final = ("calculator", "echo", "get_weather", "http_request")
_OWN: Final = files("tool_engine.cli.demo").joinpath("tools")
"""The definitions that the demo has of its own; others are what `tool-engine new` writes."""


def copy_definitions(settings: Settings, target: Path) -> str:
    """Copy the definitions into `target` and return where they came from.

    The tools folder is used when it holds the files that the demo needs, else those of the package.
    A folder that was named must hold them.
    """
    source = Path(settings.tools)
    missing = [name for name in NEEDED if not (source / f"{name}.yaml").is_file()]
    if not missing:
        for path in sorted(source.iterdir()):
            if path.suffix in (".yaml", ".yml") and path.is_file():
                shutil.copyfile(path, target / path.name)
        return f"the folder {str(source)!r}"
    if settings.chosen is not None:
        raise CommandError(
            f"the demo needs {', '.join(f'{name}.yaml' for name in missing)} in {settings.tools!r};"
            " run it without --tools and TOOL_ENGINE_TOOLS to use the definitions that come with "
            "the package",
            error_type="no_demo_tools",
        )
    for name in NEEDED:
        own = _OWN.joinpath(f"{name}.yaml")
        text = own.read_text("utf-8") if own.is_file() else starter(name, name).definition
        (target / f"{name}.yaml").write_text(text, encoding="utf-8")
    return "the definitions that come with the package"


def add_to_entry(text: str, line: str) -> str:
    """Return the definition with `line` as the first key of its `entry`."""
    edited, count = re.subn(r"(?m)^entry:[^\n]*\n", lambda found: f"{found[0]}  {line}\n", text)
    if count != 1:
        raise CommandError("the demo cannot edit this definition: it has no `entry:` block")
    return edited


def set_version(text: str, version: str) -> str:
    edited, count = re.subn(r"(?m)^version:[^\n]*$", f'version: "{version}"', text)
    if count != 1:
        raise CommandError("the demo cannot edit this definition: it has no `version:` line")
    return edited
