"""`schema` prints the JSON Schema of a definition."""

import os
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tests.cli.test_settings_file import WRONG
from tool_engine.cli.settings_file import known_settings


def test_schema_prints_the_schema_of_a_definition(command: Callable[..., Any]) -> None:
    """One JSON document, with or without `--json`."""
    kinds = command("schema").json["$defs"]
    assert kinds["tool"]["required"] == ["name", "description"]
    assert kinds["group"]["required"] == ["kind", "name"]
    assert command("schema", "--json").out == command("schema").out


def test_the_schema_of_settings_takes_what_the_command_line_takes(
    command: Callable[..., Any],
) -> None:
    """And refuses what it refuses by name or kind; ranges and addresses it leaves to it."""
    schema = command("schema", "settings").json
    Draft202012Validator.check_schema(schema)
    check = Draft202012Validator(schema)
    assert set(schema["properties"]) == set(known_settings())
    good = """
    tools = "tools"
    recursive = true
    lock = "enforce"
    mcp_servers = ".mcp.json"
    records = "none"
    [concurrency]
    strategy = "fair"
    bucket_rates = {http = "10/s", ai = {calls = 1, period = 2.0}}
    key_limits = {key = "caller_id", limit = 2}
    [sources]
    shop = "sqlite:///shop.db"
    other = {url = "sqlite:///a.db", readonly = true}
    """
    assert list(check.iter_errors(tomllib.loads(good))) == []
    by_value = ("max_concurrent = 0", "mysql:", '"calls.db"')
    for text, _, message in WRONG:
        is_left = any(each in text for each in by_value)
        assert check.is_valid(tomllib.loads(text)) == is_left, (text, message)


def is_matched(file: str, pattern: str) -> bool:
    """Whether a whole path is meant by a glob, in which ** stands for any folders."""
    parts = [".+" if part == "**" else re.escape(part).replace(r"\*", r"(?!\.)[^/]*")
             for part in pattern.split("/")]  # fmt: skip
    any_folders = "/".join(parts).replace(".+/", "(?:.*/)?")
    return re.fullmatch(any_folders, file) is not None


def test_the_catalog_leads_to_both_schemas(command: Callable[..., Any]) -> None:
    """As editors read it: names of files, and the address of their schema."""
    catalog = command("schema", "catalog", "--address", "https://tools.example/v1/").json
    assert [each["url"] for each in catalog["schemas"]] == [
        "https://tools.example/v1/tool.schema.json",
        "https://tools.example/v1/settings.schema.json",
    ]
    for words in (("catalog",), ("tool", "--address", "x")):
        wrong = command("schema", *words)
        assert (wrong.code, "schema catalog --address URL" in wrong.err) == (2, True)
    assert "did you mean 'settings'?" in command("schema", "setting").err


@pytest.mark.parametrize("kind", ["default", "settings", "option", "absolute", "here", "recursive"])
def test_the_catalog_finds_the_files_of_a_project(
    tmp_path: Path, command: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """What `init` and `new` write is found from a folder above, and other YAML is not."""
    monkeypatch.delenv("TOOL_ENGINE_TOOLS", raising=False)
    project = tmp_path / "work" / "project"
    project.mkdir(parents=True)
    monkeypatch.chdir(project)
    folder = {"default": "tools", "here": "."}.get(kind, "for/agents")
    said = {"option": ["--tools", folder], "absolute": ["--tools", str(project / folder)],
            "here": ["--tools", "."], "recursive": ["--recursive"]}.get(kind, [])  # fmt: skip
    if kind in ("settings", "recursive"):
        (project / "tool-engine.toml").write_text(f'tools = "{folder}"\n')
    assert command(*said, "init").code == 0
    assert command(*said, "new", "my_tool").code == 0
    files = {f"{folder}/shorten.yaml", f"{folder}/my_tool.yaml"}
    (project / folder / "inner").mkdir()
    (project / folder / "inner" / "deep.yml").touch()
    files |= {f"{folder}/inner/deep.yml"} if kind == "recursive" else set()
    wrong = (project / "tool-engine.toml").read_text() + "tols = 1\n"
    catalog = command(*said, "schema", "catalog", "--address", "https://tools.example").json
    found = {
        os.path.relpath(file, project)
        for pattern in catalog["schemas"][0]["fileMatch"]
        for file in map(str, (tmp_path / "work").rglob("*"))
        if is_matched(file, pattern)
    }
    assert found == set(map(os.path.normpath, files))
    # What needs no folder is not held up by a mistake in the settings.
    (project / "tool-engine.toml").write_text(wrong)
    assert command("schema", "settings").code == 0
    assert command("schema", "catalog", "--address", "https://tools.example").code == 2
