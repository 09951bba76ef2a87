"""What is wrong with the entry of a server has its file, line, column, cause and cure."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.mcp_servers.test_hub import until
from tool_engine import ToolEngine, ToolEngineConfig
from tool_engine.catalog.servers.config_file import read_config_file
from tool_engine.catalog.servers.toml_text import TOMLDocument

JSON = """{
  "mcpServers": {
    "program": {"command": "wether-server"},
    "folder": {"command": "python3", "cwd": "nowhere"},
    "unset": {
      "command": "python3",
      "args": ["-c", "${NO_SUCH_VARIABLE}", "${env:NO_OTHER_VARIABLE}"]
    },
    "file": {"command": "python3", "env": {"KEY": "${file:/no/such/secret}"}},
    "url": {"serverUrl": "http://127.0.0.1:9/mcp"},
    "header": {"url": "http://127.0.0.1:9/mcp", "headers": {"X": "名"}},
    "unmet": {"command": "python3", "comand": "x"}
  }
}
"""
SAID = {
    "3:28": "its program 'wether-server' is not on PATH; did you mean 'weather-server'?",
    "4:45": "that it is to run in is not there; make it, or correct its cwd",
    "7:22": "the server 'unset' needs the variable NO_SUCH_VARIABLE, which is not set; set it",
    "7:45": "the server 'unset' needs the variable NO_OTHER_VARIABLE, which is not set; set it",
    "9:51": "the server 'file' gives no list: ",
    "10:26": "the server 'url' gives no list: it cannot be reached",
    "11:66": "its header 'X' cannot be sent; write letters of Latin-1",
    "12:37": "unknown key 'comand'; did you mean 'command'?",
}
YAML = """kind: mcp_server
name: program
command: wether-server
---
kind: mcp_server
name: folder
command: python3
cwd: /nowhere
---
kind: mcp_server
name: unset
command: python3
args: [-c, "${env:NO_SUCH_VARIABLE}"]
"""
SAID_OF_YAML = {
    "3:10": "did you mean 'weather-server'?",
    "8:6": "make it, or correct its cwd",
    "13:12": "or write ${env:NO_SUCH_VARIABLE:-default}",
}


@pytest.fixture(autouse=True)
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PATH has a program `weather-server`, whatever else this machine has."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "weather-server").write_text("")
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")


async def say_errors(tmp_path: Path, servers: str | None) -> list[str]:
    config = ToolEngineConfig(str(tmp_path / "tools"), mcp_servers=servers, auto_reload=False)
    async with ToolEngine(config) as engine:
        return [text for _, text in engine.load_errors]


def check_places(place: Path, said: dict[str, str], errors: list[str]) -> None:
    for where, what in said.items():
        (found,) = [each for each in errors if each.startswith(f"{place}:{where}: ")]
        assert what in found
    assert len(errors) == len(said)


async def test_each_entry_of_a_file_of_servers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_SUCH_VARIABLE", raising=False)
    (tmp_path / "tools").mkdir()
    file = tmp_path / ".mcp.json"
    file.write_text(JSON)
    check_places(file, SAID, await say_errors(tmp_path, str(file)))


async def test_each_definition_of_a_server(tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    file = tmp_path / "tools" / "servers.yaml"
    file.write_text(YAML)
    check_places(file, SAID_OF_YAML, await say_errors(tmp_path, None))


async def test_two_servers_of_one_name_are_found_in_their_files(tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    for name in ("a", "b"):
        text = "kind: mcp_server\nname: same\nenabled: false\ncommand: x\n"
        (tmp_path / "tools" / f"{name}.yaml").write_text(text)
    errors = await say_errors(tmp_path, None)
    place = tmp_path / "tools"
    assert f"{place}/a.yaml:2:7: " in errors[0]
    assert f"is also defined in {place}/b.yaml:2:7; rename or remove one" in errors[0]


async def test_a_place_moves_with_its_entry(tmp_path: Path) -> None:
    """A line that comes before it starts nothing anew, and changes what is said next."""
    (tmp_path / "tools").mkdir()
    file = tmp_path / ".mcp.json"
    file.write_text('{"mcpServers": {"one": {"command": "wether-server"}}}')
    config = ToolEngineConfig(str(tmp_path / "tools"), mcp_servers=str(file), auto_reload=False)
    async with ToolEngine(config) as engine:
        assert f"{file}:1:36: " in str(engine.load_errors)
        file.write_text('\n{"mcpServers": {"one": {"command": "wether-server"}}}')
        await engine.reload()
        await engine.reload()
        await until(lambda: f"{file}:2:36: " in str(engine.load_errors))


def said_of(tmp_path: Path, entry: object) -> list[str]:
    file = tmp_path / ".mcp.json"
    file.write_text(json.dumps({"mcpServers": {"one": entry}}))
    return [text for _, text in read_config_file(str(file)).errors]


def test_arguments_as_a_text_are_split_and_the_cure_is_right(tmp_path: Path) -> None:
    (text,) = said_of(tmp_path, {"command": "x", "args": "-y 'a b' --n 3"})
    cure = text.rpartition("write it as a list: ")[2]
    assert json.loads(cure) == ["-y", "a b", "--n", "3"]
    assert said_of(tmp_path, {"command": "x", "args": json.loads(cure)}) == []


def test_each_finding_of_an_entry_is_one_error_of_one_line(tmp_path: Path) -> None:
    """One that is wrong in its keys does not hide what is wrong in its values."""
    wrong = {"command": "x", "ennv": {}, "args": "a b", "env": {"KEY": "${file:~/key}"}}
    errors = said_of(tmp_path, wrong)
    assert len(errors) == 3
    assert not any("\\n" in each or r"\\x0a" in each for each in errors)
    assert any("unknown key 'ennv'; did you mean 'env'?" in each for each in errors)
    home = Path.home() / "key"
    assert any(f"is no full path; write ${{file:{home}}}" in each for each in errors)
    healed = {"command": "x", "args": ["a", "b"], "env": {"KEY": f"${{file:{home}}}"}}
    assert said_of(tmp_path, healed) == []


TOML = '''a = 1
"b c".d = {x = [1, {y = "z"}], k.l = 3}
[t.'u v']
m = """
x = 3
"""
[[l]]
q = 1979-05-27 07:32:00
[[l]]
r = 2
[l.s]
w = [
 # c
 "a,]", 'b',
]
'''


@pytest.mark.parametrize(
    ("path", "line", "column"),
    [
        (("a",), 1, 5),
        (("b c", "d", "x", 1, "y"), 2, 25),
        (("b c", "d", "k", "l"), 2, 38),
        (("t", "u v", "m"), 4, 5),
        (("l", 0, "q"), 8, 5),
        (("l", 1, "r"), 10, 5),
        (("l", 1, "s", "w", 1), 14, 9),
        (("t", "no", "such"), 3, 2),
    ],
)
def test_each_part_of_a_toml_text_has_its_place(
    path: tuple[str | int, ...], line: int, column: int
) -> None:
    (mark,) = TOMLDocument({}, TOML).marks([(path, False)])
    assert (mark.line + 1, mark.column + 1) == (line, column)
