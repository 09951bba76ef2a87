"""What `make release` refuses, with real archives."""

from __future__ import annotations

import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.meta.sources import ROOT
from tests.release.__main__ import DIST, CommandError, find_pythons, find_uv, list_files, run
from tests.release.artifacts import check_changelog, check_sdist, check_wheel

VERSION = "0.1.0"
PROJECT = ("pyproject.toml", "pyproject.toml.orig")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """What the project builds now: a source distribution, and the wheel made of it."""
    folder = tmp_path_factory.mktemp("dist")
    run(find_uv(), "build", "--no-build-isolation", "--python", sys.executable, "-o", folder)
    (sdist,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
    return sdist, wheel


def test_built_package_is_whole(built: tuple[Path, Path]) -> None:
    """It holds each file of the package that is under version control, and no test or cache."""
    sdist, wheel = built
    version = wheel.name.split("-")[1]
    meant = list_files("tool_engine")
    assert "tool_engine/py.typed" in meant
    on_disk = [each for each in meant if (ROOT / each).exists()]
    others = set(run("git", "ls-files", "-o", "--exclude-standard", "--", "tool_engine").split())
    assert check_wheel(wheel, {*on_disk, *others}, version) == []
    assert check_sdist(sdist, {*on_disk, *others}, version) == []


def test_what_does_not_belong_is_named(tmp_path: Path) -> None:
    wheel, sdist = tmp_path / "w.whl", tmp_path / "s.tar.gz"
    about = f"tool_engine-{VERSION}.dist-info/"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name in ("METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE"):
            archive.writestr(about + name, "")
        archive.writestr("tests/test_a.py", "")
    (tmp_path / "a").write_text("")
    with tarfile.open(sdist, "w:gz") as tar:
        for name in ("LICENSE", "PKG-INFO", "README.md", *PROJECT, "secret.env"):
            tar.add(tmp_path / "a", f"tool_engine-{VERSION}/{name}")
    assert check_wheel(wheel, ["tool_engine/a.py"], VERSION) == [
        "w.whl lacks tool_engine/a.py",
        "w.whl has tests/test_a.py, which does not belong there",
    ]
    assert check_sdist(sdist, [], VERSION) == [
        "s.tar.gz has secret.env, which does not belong there"
    ]


OLD = "\n## 0.1.0\n\nThe first.\n"


@pytest.mark.parametrize(
    ("text", "version", "wrong"),
    [
        ("# Changelog\n" + OLD, "0.1.0", []),
        ("# Changelog\n\n## 0.2.0\n\n### Upgrade from 0.1\n\nNothing." + OLD, "0.2.0", []),
        ("# Changelog\n\n## Unreleased\n\n- New." + OLD, "0.1.0", ["under Unreleased"]),
        ("# Changelog\n\n## 0.2.0\n\n- New." + OLD, "0.2.0", ["nothing under ### Upgrade"]),
        ("# Changelog\n" + OLD, "0.2.0", ["has no ## 0.2.0"]),
    ],
)
def test_changelog(text: str, version: str, wrong: list[str]) -> None:
    """A release has its own heading, nothing is left without one, and an upgrade is described."""
    found = check_changelog(text, version)
    assert len(found) == len(wrong)
    assert all(part in each for part, each in zip(wrong, found, strict=True))


def test_pythons_that_are_found() -> None:
    """Each is the version that its name says, outside of this virtual environment."""
    found = dict(find_pythons())
    assert found
    for version, program in found.items():
        code = "import sys; print('%d.%d' % sys.version_info[:2], sys.prefix == sys.base_prefix)"
        assert run(program, "-c", code).split() == [version, "True"]


def test_command_that_fails() -> None:
    with pytest.raises(CommandError, match="no luck"):
        run(sys.executable, "-c", "import sys; sys.exit('no luck')")
    assert DIST.parent == ROOT
