"""What is installed from a wheel has all that the package needs."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COPY = """
import sys
from pathlib import Path
from tool_engine.cli.demo import stage
from tool_engine.cli.settings import Settings
assert str(stage.__file__).startswith(sys.argv[1]), stage.__file__
print(stage.copy_definitions(Settings(), Path()))
"""


def build_wheel(folder: Path) -> Path:
    """A wheel of this tree."""
    uv = [sys.executable, "-m", "uv", "build", "--wheel", "--no-build-isolation", "--offline", "-q"]
    words = [*uv, "--python", sys.executable, "-o", str(folder), str(ROOT)]
    subprocess.run(words, check=True, timeout=120)
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The content of a wheel that was built from this tree."""
    folder = tmp_path_factory.mktemp("wheel")
    with zipfile.ZipFile(build_wheel(folder)) as content:
        content.extractall(folder / "installed")
    return folder / "installed"


def test_every_file_is_in_the_wheel(installed: Path) -> None:
    """Templates, schemas, definitions and `py.typed` are there, as they are here."""
    here = {
        path.relative_to(ROOT): path.read_bytes()
        for path in (ROOT / "tool_engine").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    there = {path: (installed / path).read_bytes() for path in here if (installed / path).is_file()}
    assert there.keys() == here.keys()
    assert there == here


def test_the_demo_has_its_definitions(installed: Path, tmp_path: Path) -> None:
    """`pip install`, then `tool-engine demo`, works in any folder."""
    ended = subprocess.run(
        [sys.executable, "-c", COPY, str(installed)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert ended.stdout == "the definitions that come with the package\n"
    assert len(list(tmp_path.glob("*.yaml"))) == 4
