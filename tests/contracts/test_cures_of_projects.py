"""What an error about a project's settings says to do is done, and the command works.

`FILES` are settings with a mistake, and as the message asks for; `LINES` are command lines.
Rows as in `test_cures_of_errors`.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.contracts.test_cures_of_errors import names_cure
from tests.rights import without_root
from tool_engine.cli.app import run

ECHO = "name: echo\ndescription: Says it.\nentry: {type: builtin, handler: echo}\n"
SETTINGS = "cli/settings_file.py: "
ONE_FILE = SETTINGS + "keep them in one of the two files"
TABLE = SETTINGS + "write them below …"
EXAMPLE = SETTINGS + "write … = …"
NO_FILE = SETTINGS + "put the settings there, or move it away"
HEADING = SETTINGS + "did you mean [tool.…]?"
NO_HEADING = SETTINGS + "leave out the heading […]"
NAME_OF_FILE = SETTINGS + "move its settings to …"
PYPROJECT, OWN = "pyproject.toml", "tool-engine.toml"
OURS = "[tool.tool-engine]\n"
FILES = [
    (ONE_FILE, {PYPROJECT: "[tool.tool-engine]", OWN: ""}, {PYPROJECT: "", OWN: ""}),
    (ONE_FILE, {PYPROJECT: "[tool.tool-engine]", OWN: ""}, {PYPROJECT: "[tool.tool-engine]"}),
    (TABLE, {PYPROJECT: "[tool]\ntool-engine = 3"}, {PYPROJECT: "[tool.tool-engine]\n"}),
    (HEADING, {PYPROJECT: "[tool.tool_engine]\nlock = 'off'"}, {PYPROJECT: f"{OURS}lock = 'off'"}),
    (HEADING, {PYPROJECT: "[tool.ToolEngine.sources]"}, {PYPROJECT: "[tool.tool-engine.sources]"}),
    (HEADING, {PYPROJECT: "[tool.tol-engine]"}, {PYPROJECT: OURS}),
    (HEADING, {PYPROJECT: "[tool-engine]\nlock = 'off'"}, {PYPROJECT: f"{OURS}lock = 'off'"}),
    (HEADING, {PYPROJECT: f"{OURS}[tool.tool_engine]"}, {PYPROJECT: OURS}),
    (NO_HEADING, {OWN: f"{OURS}lock = 'off'"}, {OWN: "lock = 'off'"}),
    (NO_HEADING, {OWN: "[tool-engine]\nlock = 'off'"}, {OWN: "lock = 'off'"}),
    (NAME_OF_FILE, {"tool_engine.toml": "lock = 'off'"}, {OWN: "lock = 'off'"}),
    (NAME_OF_FILE, {".tool-engine.toml": "lock = 'off'"}, {OWN: "lock = 'off'"}),
]
IN_PLACE = "cli/writing.py: move away what is in its place"
TOLD = ["sources = 1", "concurrency = []", "mcp_servers = 7"]
"""Settings whose right form the message writes out."""
LINES = [
    ("cli/app.py: leave one out", "--recursive --no-recursive list",
     ["--recursive list", "--no-recursive list"]),
    ("cli/app.py: name a folder that is there", "-C nowhere list", ["-C . list"]),
    ("cli/files/validate_command.py: leave one out", "validate --watch --format sarif",
     ["validate --format sarif"]),
    ("cli/files/schema_command.py: write `tool-engine schema catalog --address URL`",
     "schema catalog", ["schema catalog --address https://tools.example"]),
    (("cli/files/schema_command.py: write where editors find the schemas, such as --address "
      "https://example.com/schemas"), "schema catalog --address tools.example/schemas",
     ["schema catalog --address https://example.com/schemas"]),
    (IN_PLACE, "init taken/in", ["init free/in"]),
    (("cli/settings.py: name another with `tool-engine --tools DIR ...` or the variable "
      "TOOL_ENGINE_TOOLS, or begin a project with `tool-engine init`"), "--tools nowhere list",
     ["--tools tools list", "-C empty init", "-C empty list"]),
    ("cli/settings.py: name the one with your servers, such as .mcp.json",
     "--mcp-config nowhere.json list", ["--mcp-config .mcp.json list"]),
    ("cli/settings.py: write `tool-engine -C … ...`", "-C tools list", ["-C tools/.. list"]),
]  # fmt: skip
FORBIDDEN = "cli/writing.py: allow it in … with chmod, or …"
FORBIDDEN_FILE = "named_file.py: allow it in … with chmod, or name another one"
LINK = "cli/failures.py: make the link anew, or what it leads to"
CLOSED = "cli/documents.py: name a file in place of -"
TRIED = {EXAMPLE, NO_FILE, LINK, CLOSED} | {row[0] for row in (*FILES, *LINES)}
NEW_FOLDERS = [
    # A line that makes a folder, the name that is in its way, and the line as it is asked for.
    ("init", "tests", "init free"),
    ("init here/below", "here", "init free"),
    ("--tools other new get_weather", "other", "--tools free new get_weather"),
]
NEW_FILES = [
    ("new get_weather --kind python", "--tools ../free --path .. new get_weather --kind python"),
    ("lock", "lock --file ../free/tools.lock"),
    ("schema --output it.json", "schema --output ../free/it.json"),
]
"""A line that makes a file, and the same elsewhere."""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TOOL_ENGINE_TOOLS", raising=False)
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "echo.yaml").write_text(ECHO)
    (tmp_path / "empty").mkdir()
    (tmp_path / ".mcp.json").write_text('{"mcpServers": {}}')
    (tmp_path / "taken").touch()
    return tmp_path


def said(line: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    code = run(line.split())
    return code, " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(("row", "broken", "healed"), FILES)
def test_in_settings(
    place: Path,
    capsys: pytest.CaptureFixture[str],
    row: str,
    broken: dict[str, str],
    healed: dict[str, str],
) -> None:
    for name, text in broken.items():
        (place / name).write_text(text)
    code, message = said("list", capsys)
    assert code == 2
    assert names_cure(row, message), message
    for name in broken:
        (place / name).unlink()
    for name, text in healed.items():
        (place / name).write_text(text)
    assert said("list", capsys) == (0, "")


@pytest.mark.parametrize("text", TOLD)
def test_settings_as_they_were_told(
    place: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    """The line that the message writes out is taken in place of the wrong one."""
    (place / OWN).write_text(text)
    code, message = said("list", capsys)
    assert code == 2
    assert names_cure(EXAMPLE, message), message
    (place / OWN).write_text(message.partition("; write ")[2])
    (place / ".mcp.json").write_text('{"mcpServers": {}}')
    assert said("list", capsys) == (0, "")


@pytest.mark.parametrize("text", ["tols = 'tools'", "recursive = 'yes'", "lock = 'ofe'"])
def test_the_name_or_the_value_that_was_meant(
    place: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    (place / OWN).write_text(text)
    _, message = said("list", capsys)
    meant = re.findall(r"did you mean '([^']+)'|; write (\S+)$", message)[-1]
    key, _, value = text.partition(" = ")
    healed = (
        f"{key} = {meant[1]}"
        if meant[1]
        else text.replace(key if key == "tols" else value.strip("'"), meant[0])
    )
    (place / OWN).write_text(healed)
    assert said("list", capsys) == (0, ""), healed


@pytest.mark.parametrize(("row", "broken", "healed"), LINES, ids=[row[1] for row in LINES])
def test_the_line_that_is_asked_for(
    place: Path, capsys: pytest.CaptureFixture[str], row: str, broken: str, healed: list[str]
) -> None:
    del place
    code, message = said(broken, capsys)
    assert code == 2
    assert names_cure(row, message), message
    for line in healed:
        assert said(line, capsys) == (0, ""), line


@pytest.mark.parametrize("line", ["call echo message=@{}", "simulate {}"])
def test_a_closed_standard_input(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    """A process may begin without one, as with `<&-`."""
    (place / "calls.jsonl").write_text(
        '{"call_id": "c", "tool_name": "t", "bucket": "b", "priority": 0, "enqueued_at": 1.0, '
        '"started_at": 1.0, "ended_at": 2.0}'
    )
    with monkeypatch.context() as patched:
        patched.setattr("sys.stdin", None)
        code, message = said(line.format("-"), capsys)
    assert code == 2
    assert names_cure(CLOSED, message), message
    assert said(line.format("calls.jsonl"), capsys)[0] == 0


@pytest.mark.parametrize(("line", "taken", "elsewhere"), NEW_FOLDERS)
def test_what_is_in_the_place_of_a_folder(
    place: Path, capsys: pytest.CaptureFixture[str], line: str, taken: str, elsewhere: str
) -> None:
    """What is in its place is moved away, or another folder is named."""
    (place / taken).touch()
    (place / "tools" / "echo.yaml").unlink()
    code, message = said(line, capsys)
    assert code == 2
    assert names_cure(IN_PLACE, message), message
    assert said(elsewhere, capsys) == (0, "")
    (place / taken).rename(place / "elsewhere")
    assert said(line, capsys) == (0, "")


@pytest.mark.parametrize(("line", "taken", "elsewhere"), NEW_FOLDERS)
def test_a_folder_that_may_not_be_made(
    place: Path, capsys: pytest.CaptureFixture[str], line: str, taken: str, elsewhere: str
) -> None:
    """It is made where chmod allows it, or another one is, which the message tells to name."""
    del taken
    (place / "tools" / "echo.yaml").unlink()
    place.chmod(0o555)
    with without_root():
        code, message = said(line, capsys)
        assert code == 2
        assert names_cure(FORBIDDEN, message), message
        assert "allow it in '.' with chmod" in message
        place.chmod(0o755)
        assert said(line, capsys) == (0, "")
        (place / "free").mkdir()
        place.chmod(0o555)
        assert said(elsewhere, capsys) == (0, "")
        place.chmod(0o755)


@pytest.mark.parametrize(("line", "elsewhere"), NEW_FILES)
def test_a_file_that_may_not_be_made(
    place: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    line: str,
    elsewhere: str,
) -> None:
    """It is made where chmod allows it, or with another name elsewhere."""
    home, free = place / "home", place / "free"
    (home / "tools").mkdir(parents=True)
    free.mkdir()
    (home / "tools" / "echo.yaml").write_text(ECHO)
    monkeypatch.chdir(home)
    folder = home / "tools" if "new" in line else home
    folder.chmod(0o555)
    with without_root():
        code, message = said(line, capsys)
        assert code
        assert names_cure(FORBIDDEN_FILE, message), message
        assert f"{folder.name}' with chmod" in message
        assert said(elsewhere, capsys) == (0, "")
        folder.chmod(0o755)
        assert said(line, capsys) == (0, "")


@pytest.mark.parametrize("cure", ["the link anew", "what it leads to"])
def test_a_link_to_nothing(place: Path, capsys: pytest.CaptureFixture[str], cure: str) -> None:
    """The link is made anew, or what it leads to."""
    link, target = place / "linked.yaml", place / "moved.yaml"
    link.symlink_to("moved.yaml")
    code, message = said("validate linked.yaml", capsys)
    assert code == 2
    assert names_cure(LINK, message), message
    if cure == "the link anew":
        link.unlink()
        link.symlink_to("tools/echo.yaml")
    else:
        target.write_text(ECHO)
    assert said("validate linked.yaml", capsys) == (0, "")


def test_settings_that_are_no_file(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Both ways out: what is in the way is moved, or becomes what it stands for."""
    (place / OWN).symlink_to("kept.toml")
    code, message = said("list", capsys)
    assert code == 2
    assert names_cure(NO_FILE, message), message
    (place / "kept.toml").write_text("recursive = false\n")
    assert said("list", capsys) == (0, "")
    (place / "kept.toml").unlink()
    (place / OWN).unlink()
    assert said("list", capsys) == (0, "")
