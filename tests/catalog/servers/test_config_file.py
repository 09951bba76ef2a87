"""A `.mcp.json` is read as the programs read it that it is written for."""

import json
from pathlib import Path
from typing import Any

import pytest

from tool_engine.catalog.servers.config_file import Servers, read_config_file, read_entries


def read(tmp_path: Path, value: Any) -> Servers:
    file = tmp_path / ".mcp.json"
    file.write_text(value if isinstance(value, str) else json.dumps(value))
    return read_config_file(str(file))


def read_one(tmp_path: Path, entry: Any) -> dict[str, Any]:
    found = read(tmp_path, {"mcpServers": {"one": entry}})
    assert found.errors == []
    return dict(found.servers[0].content)


def said_of(tmp_path: Path, entry: Any) -> list[str]:
    found = read(tmp_path, {"mcpServers": {"one": entry}})
    place = f"{tmp_path}/.mcp.json:"
    return [line.removeprefix(place) for _, text in found.errors for line in text.splitlines()]


def test_a_program_of_each_kind_of_client(tmp_path: Path) -> None:
    for key in ("mcpServers", "servers"):
        found = read(tmp_path, {key: {"files": {"command": "npx", "args": ["-y", "files"]}}})
        (server,) = found.servers
        assert (server.name, server.is_enabled) == ("files", True)
        # It runs in the folder of the project, wherever the engine was started.
        assert server.content == {"command": "npx", "args": ["-y", "files"], "cwd": str(tmp_path)}


def test_the_settings_of_an_editor_count_from_the_project_around_their_folder(
    tmp_path: Path,
) -> None:
    (tmp_path / ".vscode").mkdir()
    file = tmp_path / ".vscode" / "mcp.json"
    file.write_text('{"servers": {"a": {"command": "x", "cwd": "sub"}}}')
    (server,) = read_config_file(str(file)).servers
    assert server.content["cwd"] == f"{tmp_path}/sub"


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ({"type": "http", "url": "https://x/mcp"}, "http"),
        ({"type": "streamable-http", "url": "https://x/mcp"}, "http"),
        ({"transport": "streamableHttp", "serverUrl": "https://x/mcp"}, "http"),
        ({"type": "sse", "url": "https://x/mcp"}, "sse"),
        ({"serverUrl": "https://x/mcp"}, None),
    ],
)
def test_each_word_for_http(tmp_path: Path, words: dict[str, str], kind: str | None) -> None:
    content = read_one(tmp_path, words)
    assert (content["url"], content.get("type")) == ("https://x/mcp", kind)


def test_variables_are_written_in_one_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    content = read_one(
        tmp_path,
        {
            "command": "${userHome}/bin/x",
            "args": ["${workspaceFolder}${/}a", "${A:-b c}", "$A", "${env:A}"],
            "env": {"T": "${TOKEN}", "F": "${file:/run/t}"},
        },
    )
    assert content["command"] == "/home/me/bin/x"
    assert content["args"] == [f"{tmp_path}/a", "${env:A:-b c}", "$A", "${env:A}"]
    assert content["env"] == {"T": "${env:TOKEN}", "F": "${file:/run/t}"}


def test_our_own_keys_have_a_place_of_their_own(tmp_path: Path) -> None:
    own = {"timeout": 5, "expose": ["get_*"], "tools": {"get_*": {"effect": "read"}}}
    content = read_one(tmp_path, {"url": "https://x/mcp", "tool-engine": own})
    assert content == {"url": "https://x/mcp", **own}


def test_what_only_other_programs_do_is_a_finding(tmp_path: Path) -> None:
    entry = {"command": "x", "autoApprove": ["a"], "timeout": 60, "note": "mine", "odd": 1}
    (server,) = read(tmp_path, {"mcpServers": {"one": entry}}).servers
    said = [each.partition("mcpServers.one.")[2] for each in server.findings]
    assert said == [
        (
            "autoApprove: 'autoApprove' is passed over: consent is decided here; set "
            "permission under tool-engine"
        ),
        (
            "timeout: 'timeout' is passed over: programs count it in different units; set it under "
            "tool-engine, in seconds"
        ),
        "odd: 'odd' is passed over: its meaning is unknown; remove it",
    ]


def test_one_that_is_turned_off_is_known(tmp_path: Path) -> None:
    for word in ({"disabled": True}, {"enabled": False}):
        (server,) = read(tmp_path, {"mcpServers": {"one": {"command": "x", **word}}}).servers
        assert not server.is_enabled


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        (
            {},
            [
                (
                    "1:17: mcpServers.one: nothing says how the server is reached; add the "
                    "program as command, or the endpoint as url"
                )
            ],
        ),
        (
            3,
            [
                (
                    "1:17: mcpServers.one: expected a mapping, got the number 3; write a "
                    "mapping with command or url"
                )
            ],
        ),
        (
            {"comand": "x"},
            [("1:25: mcpServers.one.comand: unknown key 'comand'; did you mean 'command'?")],
        ),
        (
            {"cmd": "x", "environment": {}},
            [
                "1:25: mcpServers.one.cmd: unknown key 'cmd'; did you mean 'command'?",
                "1:37: mcpServers.one.environment: unknown key 'environment'; did you mean 'env'?",
            ],
        ),
        (
            {"command": "x", "args": "y"},
            [
                (
                    "1:49: mcpServers.one.args: expected a list, got the text "
                    "'y'; write it as a list: [\"y\"]"
                )
            ],
        ),
        (
            {"command": "x", "url": "https://x"},
            [("1:41: mcpServers.one.url: command and url are two servers; remove one of them")],
        ),
        (
            {"command": "x", "bucket": "b"},
            [("1:41: mcpServers.one.bucket: bucket is a key of ours; put it under tool-engine")],
        ),
        (
            {"command": "x", "tools": {"pay": {"permission": "ask_always"}}},
            [("1:41: mcpServers.one.tools: tools is a key of ours; put it under tool-engine")],
        ),
        (
            {"command": "x", "tool-engine": {"timout": 1}},
            [
                (
                    "1:57: mcpServers.one.tool-engine.timout: unknown key 'timout'; did you mean "
                    "'timeout'?"
                )
            ],
        ),
        (
            {"command": "x", "tool-engine": {"tools": {"a": {"effect": "wrote"}}}},
            [
                (
                    "1:83: mcpServers.one.tool-engine.tools.a.effect: expected one of read, "
                    "write, unknown, got the text 'wrote'; did you mean 'write'?"
                )
            ],
        ),
        (
            {"url": "ftp://x"},
            [
                (
                    "1:32: mcpServers.one.url: the url is no address of HTTP; begin it "
                    "with https://, or http://"
                )
            ],
        ),
        (
            {"url": "https://x", "type": "htp"},
            [
                (
                    "1:53: mcpServers.one.type: expected one of stdio, "
                    "http, sse, got the text 'htp'; did you mean "
                    "'http'?"
                )
            ],
        ),
        (
            {"url": "https://x", "type": "stdio"},
            [("1:53: mcpServers.one.type: the type does not go with url; write http or sse")],
        ),
        (
            {"url": "https://x", "env": {}},
            [("1:45: mcpServers.one.env: env belongs to command; remove it")],
        ),
        (
            {"url": "https://x", "serverUrl": "https://x"},
            ["1:45: mcpServers.one.serverUrl: url and serverUrl say the same; give one"],
        ),
        (
            {"url": "https://x", "headers": {"A": "${input:key}"}},
            [
                (
                    "1:62: mcpServers.one.headers.A: ${input:key} asks a person, and there "
                    "may be none; set a variable, and write ${env:NAME}"
                )
            ],
        ),
        (
            {"command": "x", "args": ["${file:/a}"]},
            [
                (
                    "1:50: mcpServers.one.args[0]: ${file:/a} would show the secret here; put "
                    "it into env or headers"
                )
            ],
        ),
        (
            {"command": "x", "disabled": True, "enabled": True},
            [("1:59: mcpServers.one.enabled: disabled and enabled differ; give one")],
        ),
        (
            {"command": "x", "disabled": "yes"},
            [("1:53: mcpServers.one.disabled: expected true or false, got the text 'yes'")],
        ),
    ],
)
def test_each_mistake_is_said_with_its_place_and_cure(
    tmp_path: Path, entry: Any, said: list[str]
) -> None:
    assert said_of(tmp_path, entry) == said


def test_a_wrong_entry_never_drops_the_others(tmp_path: Path) -> None:
    found = read(tmp_path, {"mcpServers": {"bad": {"command": 3}, "good": {"command": "x"}}})
    assert [server.name for server in found.servers] == ["good"]
    assert (len(found.errors), found.broken) == (1, ["bad"])


def test_a_name_in_both_lists_is_an_error(tmp_path: Path) -> None:
    entry = {"a": {"command": "x"}}
    found = read(tmp_path, {"mcpServers": entry, "servers": entry})
    assert len(found.servers) == 1
    assert "there is a server 'a' under mcpServers as well; remove one" in found.errors[0][1]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[]", ".mcp.json:1:1: expected a mapping, got a list; list the servers under mcpServers"),
        ('{"a": 1}', "there are no servers here; list the servers under mcpServers"),
        ('{"mcpServer": {}}', "unknown key 'mcpServer'; did you mean 'mcpServers'?"),
        ('{"mcpServers": []}', "expected servers by their names, got a list"),
        ('{"mcpServers": {', "this is no JSON"),
    ],
)
def test_a_file_without_servers_says_so(tmp_path: Path, text: str, said: str) -> None:
    found = read(tmp_path, text)
    assert said in found.errors[0][1]
    assert not found.is_read


def test_a_file_that_is_not_there_says_so(tmp_path: Path) -> None:
    found = read_config_file(str(tmp_path / "none.json"))
    assert "the file of servers cannot be read: No such file" in found.errors[0][1]
    assert not found.is_read


def test_a_secret_is_in_no_message(tmp_path: Path) -> None:
    entry = {"url": "https://x", "headers": {"Authorization": ["hunter2-hunter2"]}}
    entry["headers"]["token"] = {"a": "hunter2-hunter2"}  # type: ignore[index] # made wrong
    assert "hunter2" not in str(read(tmp_path, {"mcpServers": {"one": entry}}).errors)


def test_entries_of_a_program_have_the_same_form() -> None:
    two: dict[Any, Any] = {"command": 1}
    for wrong, said in (
        (two, "two.command: expected text, got the number 1; quote it"),
        ({3: 1}, "two: the key 3 must be text"),
        ({"env": {"A": object()}}, "two.env.A: a object cannot be part of a definition; use JSON"),
    ):
        found = read_entries({"one": {"url": "https://x/mcp"}, "two": wrong}, "mcp_servers")
        assert [server.name for server in found.servers] == ["one"]
        ((place, text),) = found.errors
        assert place == "mcp_servers"
        assert text.startswith(f"mcp_servers: {said}")
