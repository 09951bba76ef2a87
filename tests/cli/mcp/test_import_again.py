"""What does a second `mcp import` make of the files that the first one wrote?"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.cli.mcp.test_servers import SEARCH, Ended, Run, cli, give_tools, name_servers, place

__all__ = ["cli", "place"]
BIG = {**SEARCH, "name": "big"}
NEW = {**SEARCH, "description": "Searches better."}


@pytest.fixture
def again(place: Path, cli: Run) -> Run:
    """Imports from a server whose two tools are imported already."""
    config = name_servers(place, n=give_tools(place, BIG, SEARCH))
    (place / "tools").mkdir()

    def run(*options: str, output: str = "tools") -> Ended:
        return cli("--mcp-config", config, "mcp", "import", "n", "--output", output, *options)

    assert run()[:2] == (0, "wrote tools/big.yaml\nwrote tools/search.yaml\n")
    return run


def list_files(place: Path) -> list[str]:
    return sorted(str(each.relative_to(place)) for each in place.rglob("*.yaml"))


def test_what_is_there_stays_the_only_one(place: Path, again: Run) -> None:
    """Which of the files differs is said, and it is written again only if that is asked for."""
    give_tools(place, BIG, NEW)
    before = (place / "tools" / "search.yaml").read_bytes()
    there = "already there as tools/big.yaml (unchanged)\n"
    differs = "already there as tools/search.yaml (differs); write it again with --force\n"
    assert again() == (1, there + differs, "")
    assert (place / "tools" / "search.yaml").read_bytes() == before
    code, out, _ = again("--json")
    said = json.loads(out)
    assert (code, said["files"]) == (1, [])
    assert said["there"] == {"tools/big.yaml": "unchanged", "tools/search.yaml": "differs"}
    assert [each["name"] for each in said["tools"]] == ["big", "search"]
    assert again("--force") == (0, f"{there}wrote tools/search.yaml\n", "")
    assert "better" in (place / "tools" / "search.yaml").read_text()
    assert again()[0] == 0
    assert list_files(place) == ["tools/big.yaml", "tools/search.yaml"]


def test_a_comment_is_no_difference_and_a_name_of_ones_own_stays(place: Path, again: Run) -> None:
    file = place / "tools" / "search.yaml"
    text = "# read by a person\n" + file.read_text().replace("name: search", "name: find", 1)
    file.unlink()
    (place / "tools" / "mine.yaml").write_text(text)
    there = "".join(f"already there as tools/{name}.yaml (unchanged)\n" for name in ("big", "mine"))
    assert again() == (0, there, "")
    give_tools(place, BIG, NEW)
    assert again("--force", "--tool", "search") == (0, "wrote tools/mine.yaml\n", "")
    assert yaml.safe_load((place / "tools" / "mine.yaml").read_text())["name"] == "find"


def test_a_file_of_several_is_not_replaced(place: Path, again: Run) -> None:
    files = [place / "tools" / f"{name}.yaml" for name in ("big", "search")]
    (place / "tools" / "all.yaml").write_text("---\n".join(each.read_text() for each in files))
    for file in files:
        file.unlink()
    code, out, _ = again()
    assert (code, out) == (0, "already there as tools/all.yaml (unchanged)\n")
    give_tools(place, BIG, NEW)
    text = (place / "tools" / "all.yaml").read_bytes()
    differs = "already there as tools/all.yaml (differs); write it again with --force\n"
    assert again() == (1, differs, "")
    code, out, err = again("--force")
    assert (code, out) == (2, "")
    assert "'tools/all.yaml' holds other definitions, too; take this one out of it" in err
    assert (place / "tools" / "all.yaml").read_bytes() == text


def test_another_folder_gets_files_of_the_same_names(place: Path, again: Run) -> None:
    """A folder that is not loaded with the tools has nothing yet; its names do not collide."""
    wrote = "wrote other/big.yaml\nwrote other/search.yaml\n"
    assert again(output="other") == (0, wrote, "")
    there = wrote.replace("wrote", "already there as").replace("\n", " (unchanged)\n")
    assert again(output="other") == (0, there, "")


def test_another_tool_of_that_name_is_a_collision(place: Path, again: Run) -> None:
    """It stays, also with --force, and the server's tool has another name."""
    file = place / "tools" / "search.yaml"
    own = "name: search\ndescription: Mine.\nentry: {type: builtin, handler: echo}\n"
    file.write_text(own)
    code, out, err = again("--force")
    assert (code, file.read_text()) == (0, own)
    assert "wrote tools/n_search.yaml\n" in out
    assert err == "n_search: renamed; the server 'n' calls it 'search'\n"
    assert again()[0] == 0
    assert list_files(place) == [f"tools/{name}.yaml" for name in ("big", "n_search", "search")]
