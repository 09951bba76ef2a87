"""Does Ray ship what `entry.config.runtime` names, and what is said where it cannot?"""

from __future__ import annotations

import asyncio
import zipfile
from pathlib import Path

import pytest

from tests.contracts.test_cures_of_errors import names_cure
from tests.fleet.samples import Bench, define_tool
from tool_engine import DefinitionError

pytestmark = [pytest.mark.ray, pytest.mark.asyncio(loop_scope="package")]
MEND = "executors/fleet/line.py: correct entry.config.runtime, or give the nodes what it needs"
CODE = """
import os
def find(text):
    import shipped_for_fleets
    with open("words.txt") as file: words = file.read()
    return [shipped_for_fleets.NAME, words, os.environ.get("GREETING")]
"""


def write_wheel(folder: Path) -> Path:
    """A package with one module, as `pip` takes it."""
    name, info = "shipped_for_fleets", "shipped_for_fleets-1.0.dist-info"
    files = {
        f"{name}.py": "NAME = 'shipped'\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{each},,\n" for each in [*files, f"{info}/RECORD"])
    path = folder / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for each, text in {**files, f"{info}/RECORD": record}.items():
            archive.writestr(each, text)
    return path


async def test_what_ray_ships(
    shared_bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder that has the handler, too, a package and a variable; a folder that is not there is
    named, and the tool runs as soon as it is.
    """
    folder, wheel = tmp_path / "sent", write_wheel(tmp_path)
    monkeypatch.syspath_prepend(str(folder))
    runtime = {
        "working_dir": str(folder),
        "py_modules": [str(wheel)],
        "env_vars": {"GREETING": "hello"},
    }
    tool = define_tool("sent", "find", runtime=runtime, max_workers=1)
    tool["entry"]["handler"] = "sent_to_fleets:find"
    folder.mkdir()
    (folder / "sent_to_fleets.py").write_text(CODE)
    (folder / "words.txt").write_text("on its way")
    shared_bench.engine.register_tool(tool)
    await asyncio.to_thread(folder.rename, tmp_path / "elsewhere")
    monkeypatch.syspath_prepend(str(tmp_path / "elsewhere"))
    result = await shared_bench.call("sent")
    assert f"directory {folder} must be an existing directory" in str(result.error)
    assert names_cure(MEND, result.error or ""), result.error
    await asyncio.to_thread((tmp_path / "elsewhere").rename, folder)
    result = await shared_bench.call("sent")
    assert result.is_success, result.error
    assert result.output["result"] == ["shipped", "on its way", "hello"]


async def test_what_cannot_be_made(shared_bench: Bench) -> None:
    """A call whose worker no node can make ends as soon as that is known, with the cause."""
    shared_bench.add_tool("pid", "unmade", runtime={"conda": "no-such-environment"})
    result = await shared_bench.call("unmade")
    assert result.error_type == "execution_error"
    assert "RuntimeEnvSetupError" in str(result.error)
    assert "conda" in str(result.error).partition("[Node")[2]
    assert names_cure(MEND, result.error or ""), result.error


async def test_a_secret_in_a_file_of_packages(shared_bench: Bench, tmp_path: Path) -> None:
    """Ray copies what is in it; the place is named, and not the words."""
    file = tmp_path / "needed.txt"
    option, index = "--extra-index-url", "https://me:hunter2@packages.test/all"
    file.write_text(f"six\n{option} {index}\n")
    shared_bench.add_tool("pid", "filed", runtime={"pip": str(file)})
    result = await shared_bench.call("filed")
    assert result.error_type == "execution_error"
    assert "entry.config.runtime.pip.packages[1]: looks like a secret" in str(result.error)
    assert "hunter2" not in str(result.error)
    assert names_cure(MEND, result.error or ""), result.error


async def test_a_secret_is_refused(shared_bench: Bench) -> None:
    """Each user of the cluster can read its runtime environments."""
    with pytest.raises(DefinitionError, match="set it in the environment of the nodes"):
        shared_bench.add_tool("path", "leaky", runtime={"env_vars": {"API_KEY": "x"}})
