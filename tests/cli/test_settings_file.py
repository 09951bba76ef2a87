"""The settings of a project hold in its folder; each mistake in them has its line and its cure."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Command
from tool_engine.cli.settings_file import known_settings

ECHO = "name: echo\ndescription: Says it.\nentry: {type: builtin, handler: echo}\n"


@pytest.fixture
def project(tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose tools lie in `mine`, and further ones in `mine/inner`."""
    place = tmp_path / "project"
    (place / "mine" / "inner").mkdir(parents=True)
    (place / "mine" / "echo.yaml").write_text(ECHO)
    (place / "mine" / "inner" / "deep.yaml").write_text(ECHO.replace("echo", "deep", 1))
    monkeypatch.chdir(place)
    monkeypatch.delenv("TOOL_ENGINE_TOOLS")
    return place


def list_names(command: Command, *words: str) -> list[str]:
    ended = command(*words, "list", "--json")
    assert ended.code == 0, ended
    return [tool["name"] for tool in ended.json["tools"]]


def write_settings(place: Path, form: str, text: str) -> None:
    if form == "pyproject.toml":
        text = f'[project]\nname = "mine"\n[tool.tool-engine]\n{text}'
    (place / form).write_text(text)


@pytest.mark.parametrize("form", ["pyproject.toml", "tool-engine.toml"])
def test_an_option_goes_before_a_variable_and_both_before_the_file(
    project: Path, command: Command, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    write_settings(project, form, 'tools = "mine"\nrecursive = true\n')
    assert list_names(command) == ["deep", "echo"]
    assert list_names(command, "--no-recursive") == ["echo"]
    monkeypatch.setenv("TOOL_ENGINE_TOOLS", "mine/inner")
    assert list_names(command) == ["deep"]
    assert list_names(command, "--tools", "mine", "--no-recursive") == ["echo"]


@pytest.mark.parametrize(
    "text",
    [
        "[tool.ruff]\n[tool.tox]\n[tool.tool]\n[tool.engine]\n",
        # One that is only like ours is another program's, where the project has settings of ours.
        "[tool.tool-engine]\n[tool.tools-engine]\nlock = 'enforce'\n",
    ],
)
def test_tables_of_other_programs_are_theirs(project: Path, command: Command, text: str) -> None:
    (project / "pyproject.toml").write_text(text)
    assert command("--tools", "mine", "call", "echo", "message=hi").code == 0


def test_settings_of_the_engine_hold_in_calls(project: Path, command: Command) -> None:
    """A strict engine refuses what it would leave out."""
    words = ("call", "echo", "--json", "other=1")
    (project / "tool-engine.toml").write_text('tools = "mine"\n')
    before = command(*words)
    write_settings(project, "tool-engine.toml", 'tools = "mine"\nstrict_validation = true\n')
    after = command(*words)
    assert (before.code, after.code) == (0, 1)
    assert after.json["error_type"] == "validation_error"


def test_databases_servers_and_lock_of_the_file(
    project: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sources are joined by name; the lock file of the settings is written, and holds."""
    write_settings(
        project,
        "tool-engine.toml",
        'tools = "mine"\nlock = "enforce"\nlock_file = "approved.lock"\n'
        '[sources]\nshop = "sqlite:///shop.db"\nother = "sqlite:///a.db"\n',
    )
    said = command("--source", "other=sqlite:///b.db", "config", "--json").json["settings"]
    urls = {each["name"]: each["value"] for each in said if each["name"].startswith("sources.")}
    assert "shop.db" in urls["sources.shop"]
    assert "b.db" in urls["sources.other"]
    assert command("call", "echo", "message=hi").code == 1
    assert command("lock").code == 0
    assert (project / "approved.lock").is_file()
    assert not (project / "mine.lock").exists()
    assert command("call", "echo", "message=hi").code == 0
    assert command("lock", "--check").code == 0
    monkeypatch.setenv("TOOL_ENGINE_LOCK", "off")
    (project / "approved.lock").unlink()
    assert command("call", "echo", "message=hi").code == 0


def test_records_are_kept_where_the_file_says_or_nowhere(
    project: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TOOL_ENGINE_RECORDS", raising=False)
    write_settings(project, "tool-engine.toml", 'tools = "mine"\nrecords = "sqlite:///kept.db"\n')
    assert command("call", "echo", "message=hi").code == 0
    assert (project / "kept.db").is_file()
    assert "echo" in command("history").out
    write_settings(project, "tool-engine.toml", 'tools = "mine"\nrecords = "none"\n')
    assert "there are no records" in command("history").err
    assert command("--records", "sqlite:///kept.db", "history").code == 0


def test_functions_are_imported_from_the_path_of_the_file(project: Path, command: Command) -> None:
    write_settings(project, "tool-engine.toml", 'tools = "mine"\npath = "source"\n')
    (project / "source").mkdir()
    (project / "source" / "of_settings.py").write_text("def run():\n    return 7\n")
    text = ECHO.replace("name: echo", "name: code").replace("builtin", "python")
    (project / "mine" / "code.yaml").write_text(
        text.replace("handler: echo", "handler: of_settings:run")
    )
    try:
        assert command("call", "code", "--json").json["output"] == {"result": 7}
    finally:
        sys.modules.pop("of_settings", None)


def test_another_folder_is_entered_and_left(project: Path, command: Command) -> None:
    """`--directory` works as if one were there: settings, tools and files of its arguments."""
    write_settings(project, "tool-engine.toml", 'tools = "mine"\n')
    here = Path.cwd()
    assert list_names(command, "--directory", str(project)) == ["echo"]
    assert list_names(command, "-C", "../project") == ["echo"]
    assert Path.cwd() == here


def test_a_client_of_mcp_starts_the_server_with_the_settings(
    project: Path, command: Command
) -> None:
    write_settings(project, "tool-engine.toml", 'tools = "mine"\n')
    entry = command("mcp", "install").json["mcpServers"]["tool-engine"]
    # Where the command is on no path, Python starts it.
    words = entry["args"][2:] if entry["args"][0] == "-m" else entry["args"]
    assert words[:2] == ["--directory", str(project)]


def test_no_file_above_counts(project: Path, command: Command) -> None:
    """What lies above may be another user's, and settings can start programs."""
    write_settings(project.parent, "tool-engine.toml", 'tools = "project/mine"\n')
    ended = command("list")
    assert ended.code == 2
    assert "write `tool-engine -C .. ...`" in ended.err


def test_a_folder_above_of_another_user_is_not_named(
    project: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    del project
    monkeypatch.setattr("os.getuid", lambda: 4711)
    assert "tool-engine init" in command("list").err


WRONG: list[tuple[str, int, str]] = [
    ('tols = "mine"', 1, "there is no setting 'tols'; did you mean 'tools'?"),
    ("\nmax-threads = 3", 2, "there is no setting 'max-threads'; did you mean 'max_threads'?"),
    ("everything = 1", 1, "there is no setting 'everything'; there are: tools, path, "),
    ("[buckets.http]", 1, "there is no setting 'buckets'; did you mean 'bucket_limits' below ["),
    ("timeout = 3", 1, "there is no setting 'timeout'; did you mean 'default_timeout' below ["),
    ("tools = 3", 1, "tools is the path of a folder, in quotes, got 3"),
    ('path = ""', 1, "path is the path of a folder"),
    ('tools_directory = "a"', 1, "is called tools here; write tools"),
    ("auto_reload = true", 1, "is for programs; leave it out"),
    ('recursive = "yes"', 1, "recursive must be true or false, got 'yes'; write true"),
    ('lock = "of"', 1, "lock must be one of off, enforce, got 'of'; did you mean 'off'?"),
    ("concurrency = 3", 1, "concurrency is a table, got int; write concurrency = {"),
    ("[concurrency]\nqueue_size = 5\nmax_concurrent = 0", 3, "max_concurrent must be"),
    ("[concurrency]\nqueue_sise = 5", 2, "no field 'queue_sise'; did you mean 'queue_size'?"),
    ("concurrency = {max_concurrent = 0}", 1, "max_concurrent must be"),
    ("concurrency.max_concurrent = 0", 1, "max_concurrent must be"),
    ('[sources]\na = "sqlite:///a.db"\n"b" = "mysql://b"', 3, "sources['b']: url must begin"),
    ('[sources.b]\nurl = "mysql://b"', 2, "sources['b']: url must begin"),
    ('sources = "a"', 1, 'write sources = {shop = "sqlite:///shop.db"}'),
    ("mcp_servers = 3", 1, 'write mcp_servers = ".mcp.json"'),
    ("[mcp_servers]\nfiles = 3", 2, "mcp_servers['files'] must be an entry"),
    ('records = "calls.db"', 1, "records: url must"),
]


WRONG_SERVERS: list[tuple[str, str, str]] = [
    (
        '[mcp_servers.files]\ncomand = "python"',
        "2:1",
        "mcp_servers.files.comand: unknown key 'comand'; did you mean 'command'?",
    ),
    (
        '[mcp_servers.files]\ncommand = "python"\n[mcp_servers.files.tool-engine]\ntimout = 3',
        "4:1",
        "mcp_servers.files.tool-engine.timout: unknown key 'timout'; did you mean 'timeout'?",
    ),
    (
        '[mcp_servers]\nfiles = {command = "python", args = "-m \'a b\'"}',
        "2:37",
        'write it as a list: ["-m", "a b"]',
    ),
]


@pytest.mark.parametrize("words", ["config", "list", "validate mine"])
@pytest.mark.parametrize(("text", "place", "message"), WRONG_SERVERS)
def test_a_wrong_entry_of_a_server_has_its_place_and_cure(
    project: Path, command: Command, words: str, text: str, place: str, message: str
) -> None:
    """Also in tables below tables, and in the other file."""
    write_settings(project, "tool-engine.toml", text)
    ended = command(*words.split(), "--json")
    said = ended.json["error"]
    assert (ended.code, said["type"]) == (2, "settings_error")
    assert said["message"].startswith(f"tool-engine.toml:{place}: "), said
    assert message in said["message"]


def test_a_server_of_pyproject_has_its_place(project: Path, command: Command) -> None:
    write_settings(project, "pyproject.toml", '[tool.tool-engine.mcp_servers.a]\ncomand = "b"\n')
    said = command("list", "--json").json["error"]["message"]
    assert said.startswith("pyproject.toml:5:1: mcp_servers.a.comand: unknown key 'comand'")


CLUSTER = '[concurrency.cluster]\nurl = "postgresql://h/db"\n'
WRONG_BELOW: list[tuple[str, str, str]] = [
    ("  max_thread = 3", "1:3", "there is no setting 'max_thread'; did you mean 'max_threads'?"),
    (f'{CLUSTER}nmae = "a"', "3:1", "cluster has no field 'nmae'; did you mean 'name'?"),
    (
        '[concurrency]\ncluster = {url = "postgresql://h/db", nmae = "a"}',
        "2:39",
        "cluster has no field 'nmae'; did you mean 'name'?",
    ),
    ('[concurrency.cluster]\nname = "a"', "1:14", "cluster has no url; give that of"),
    ('[concurrency.cluster]\nurl = "mysql://h/db"', "2:1", "cluster: url must begin with"),
    (f"{CLUSTER}session_grace = 5.0\nlease_ttl = 6.0", "4:1", "cluster.lease_ttl (6 s) must be"),
    (f"{CLUSTER}lease_ttl = true", "3:1", "cluster.lease_ttl must be a positive"),
    (f"{CLUSTER}[concurrency.cluster.bucket_limits]\na = 1\nweb = 0", "5:1", "['web'] must be"),
    (
        f"{CLUSTER}[concurrency.cluster.breakers.ai]\nfailures = 3\nreset_aftr = 3",
        "5:1",
        "breakers['ai'] has no field 'reset_aftr'; did you mean 'reset_after'?",
    ),
    ('[concurrency.bucket_rates]\na = "1/s"\nweb = "x"', "3:1", "['web'] is not a rate: 'x'"),
    ("[concurrency.overload.ai]\nshd = 'codel'", "2:1", "no field 'shd'; did you mean 'shed'?"),
    ("[concurrency.adaptive.ai]\nmn = 3", "2:1", "no field 'mn'; did you mean 'min'?"),
    ("[sources.a]\nurl = 'sqlite:///a'\nreadnly = true", "3:1", "did you mean 'readonly'?"),
]


@pytest.mark.parametrize(("text", "place", "message"), WRONG_BELOW)
def test_what_is_wrong_in_a_table_below_others_has_its_place_and_cure(
    project: Path, command: Command, text: str, place: str, message: str
) -> None:
    """However deep: the key that is wrong, and where a key is missing, the table without it."""
    write_settings(project, "tool-engine.toml", text)
    said = command("validate", "mine", "--json").json["error"]["message"]
    assert said.startswith(f"tool-engine.toml:{place}: "), said
    assert message in said


@pytest.mark.parametrize("form", ["pyproject.toml", "tool-engine.toml"])
@pytest.mark.parametrize(("text", "line", "message"), WRONG)
def test_a_wrong_setting_has_its_line_and_cure(
    project: Path, command: Command, form: str, text: str, line: int, message: str
) -> None:
    """Also for commands that need none of the settings to be right, such as `validate`."""
    if form == "pyproject.toml":
        text = text.replace("\n[", "\n[tool.tool-engine.")
        text = text if text[0] != "[" else f"[tool.tool-engine.{text[1:]}"
    write_settings(project, form, text)
    ended = command("validate", "mine", "--json")
    said = ended.json["error"]
    number = line + (3 if form == "pyproject.toml" else 0)
    assert (ended.code, said["type"]) == (2, "settings_error")
    assert re.match(rf"{re.escape(form)}:{number}:\d+: ", said["message"]), said
    assert message in said["message"]


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"tool-engine.toml": "tools = "}, 'write values so: tools = "tools"'),
        (
            {"tool-engine.toml": "a = 1\nb = x\n"},
            "tool-engine.toml:2:5 is no TOML: Invalid value;",
        ),
        ({"tool-engine.yaml": "tools: tools"}, "move its settings to tool-engine.toml"),
        ({"tool-engine.toml": b"tools = '\xff'"}, "save it as UTF-8"),
        ({"pyproject.toml": "[tool.tool-engine"}, "pyproject.toml is no TOML: "),
        (
            {"pyproject.toml": "[tool]\ntool-engine = 3"},
            "pyproject.toml:2:1: the settings are a table",
        ),
        (
            {"pyproject.toml": "\n[tool.tool-engine]\n", "tool-engine.toml": ""},
            "pyproject.toml:2:7: there are settings in tool-engine.toml too; keep them in one",
        ),
    ],
)
def test_a_file_that_cannot_be_read(
    project: Path, command: Command, files: dict[str, Any], message: str
) -> None:
    for name, text in files.items():
        (project / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    ended = command("list")
    assert (ended.code, message in ended.err) == (2, True), ended


def test_the_file_of_another_program_is_its_own_affair(project: Path, command: Command) -> None:
    """A `pyproject.toml` that is no TOML, or says nothing of tools, stops no command."""
    (project / "tool-engine.toml").write_text('tools = "mine"\n')
    for text in ("[project", '[tool.ruff]\nline-length = "x"', "tool = 3"):
        (project / "pyproject.toml").write_text(text)
        assert list_names(command) == ["echo"]


def test_help_needs_no_settings(project: Path, command: Command) -> None:
    """A mistake in the file does not keep its cure from being read."""
    (project / "tool-engine.toml").write_text("tools = ")
    assert command("list", "--help").code == 0
    assert command("--version").code == 0


def test_config_says_who_says_it(
    project: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each setting is there, with its value and its origin, and no secret."""
    write_settings(
        project,
        "pyproject.toml",
        'tools = "mine"\nmax_threads = 3\n[tool.tool-engine.concurrency]\nmax_concurrent = 4\n'
        '[tool.tool-engine.mcp_servers.files]\ncommand = "npx"\nenv = {KEY = "hidden-key"}\n',
    )
    monkeypatch.setenv("TOOL_ENGINE_LOCK", "enforce")
    monkeypatch.setenv("TOOL_ENGINE_RECORDS", "postgresql://me:hidden-key@host/records")
    ended = command("--recursive", "config", "--json")
    said = {each["name"]: (each["value"], each["origin"]) for each in ended.json["settings"]}
    assert said["tools"] == ("mine", "pyproject.toml:4")
    assert said["recursive"] == (True, "the command line")
    assert said["lock"] == ("enforce", "the variable TOOL_ENGINE_LOCK")
    assert said["records"][1] == "the variable TOOL_ENGINE_RECORDS"
    assert said["max_threads"] == (3, "pyproject.toml:5")
    assert said["max_records"] == (10_000, "default")
    assert said["concurrency.max_concurrent"] == (4, "pyproject.toml:7")
    assert said["mcp_servers"] == (["files"], "pyproject.toml:8")
    assert {name.partition(".")[0] for name in said} >= set(known_settings()) - {"sources"}
    shown = command("config", "--tools", "mine/inner")
    assert "hidden-key" not in json.dumps(ended.json) + shown.out
    assert "tools\tmine/inner\tthe command line\n" in shown.out
    assert "\nfleet\tnot set\tdefault\n" in shown.out


def test_the_cluster_of_an_option_a_variable_and_the_file(
    project: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They name the database; what is shared stands in the file."""
    text = 'tools = "mine"\n[concurrency.cluster]\nurl = "postgresql://a@file/x"\nrevision = 3\n'
    (project / "tool-engine.toml").write_text(text)

    def find_cluster(*words: str) -> tuple[str, str]:
        ended = command(*words, "config", "--json")
        assert ended.code == 0, ended
        said = {each["name"]: each for each in ended.json["settings"]}["concurrency.cluster"]
        return str(said["value"]), said["origin"]

    value, origin = find_cluster()
    assert "postgresql://[hidden]@file/x" in value
    assert origin == "tool-engine.toml:2"
    monkeypatch.setenv("TOOL_ENGINE_CLUSTER", "postgresql://me:hidden-key@variable/x")
    value, origin = find_cluster()
    assert "@variable/x" in value
    assert "'revision': 3" in value
    assert "hidden-key" not in value
    assert origin == "the variable TOOL_ENGINE_CLUSTER"
    assert find_cluster("--cluster", "none") == ("None", "the command line")
    monkeypatch.delenv("TOOL_ENGINE_CLUSTER")
    ended = command("--cluster", "sqlite:///a.db", "config")
    assert ended.code == 2
    assert "url must begin with postgresql:, got the scheme 'sqlite'" in ended.err
    # What an option says need not stand in the file, too: it may hold a password.
    text = 'tools = "mine"\n[concurrency.cluster]\nrevision = 3\n'
    (project / "tool-engine.toml").write_text(text)
    value, origin = find_cluster("--cluster", "postgresql://option/x")
    assert "//option/x" in value
    assert "'revision': 3" in value
    assert find_cluster("--cluster", "none")[0] == "None"
    assert "cluster has no url" in command("config").err
