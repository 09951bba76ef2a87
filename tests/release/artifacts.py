"""Do the files of a release hold what is meant, and nothing else?"""

from __future__ import annotations

import re
import tarfile
import zipfile
from collections.abc import Iterable
from pathlib import Path

_UPGRADE = "### Upgrade"
_HEADING = re.compile(r"^## (.+)$", re.MULTILINE)


def check_wheel(wheel: Path, meant: Iterable[str], version: str) -> list[str]:
    """What is wrong with the names in a wheel.

    `meant` are the files of the package that are under version control, from the root on.
    """
    with zipfile.ZipFile(wheel) as archive:
        found = {name for name in archive.namelist() if not name.endswith("/")}
    about = f"tool_engine-{version}.dist-info/"
    kept = {f"{about}{name}" for name in ("METADATA", "RECORD", "WHEEL", "entry_points.txt")}
    return _compare(wheel.name, found, {*meant, *kept, f"{about}licenses/LICENSE"})


def check_sdist(sdist: Path, meant: Iterable[str], version: str) -> list[str]:
    """What is wrong with the names in a source distribution."""
    begin = f"tool_engine-{version}/"
    with tarfile.open(sdist) as archive:
        found = {each.name.removeprefix(begin) for each in archive.getmembers() if each.isfile()}
    # The build backend keeps the file as it was beside the one that it has written anew.
    project = ("pyproject.toml", "pyproject.toml.orig")
    return _compare(sdist.name, found, {*meant, *project, "LICENSE", "PKG-INFO", "README.md"})


def _compare(name: str, found: set[str], meant: set[str]) -> list[str]:
    lacking, strange = sorted(meant - found), sorted(found - meant)
    return [
        *(f"{name} lacks {each}" for each in lacking),
        *(f"{name} has {each}, which does not belong there" for each in strange),
    ]


def check_changelog(text: str, version: str) -> list[str]:
    """What a changelog lacks for a release of this version."""
    parts = _HEADING.split(text)[1:]
    sections = dict(zip(parts[::2], parts[1::2], strict=True))
    wrong = []
    if sections.get("Unreleased", "").strip():
        wrong.append(
            f"docs/changelog.md has changes under Unreleased: give them the heading ## {version}, "
            "or raise the version in pyproject.toml first"
        )
    if version not in sections:
        wrong.append(f"docs/changelog.md has no ## {version}")
    earlier = [each for each in sections if each not in ("Unreleased", version)]
    if version in sections and earlier and _UPGRADE not in sections[version]:
        wrong.append(
            f"## {version} of docs/changelog.md says nothing under {_UPGRADE}: what people who "
            f"come from {earlier[0]} must change, if only that it is nothing"
        )
    return wrong
