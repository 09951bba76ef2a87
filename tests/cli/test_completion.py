"""The shell offers tool names without loading a tool."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tool_engine.cli.completion import WORDS, tool_names


def test_names_are_read_from_the_text(tmp_path: Path) -> None:
    """Every document's name counts, a broken file too; what is no file is passed over."""
    (tmp_path / "a.yaml").write_text('name: "alpha"\nparameters:\n  - name: x\n', encoding="utf-8")
    (tmp_path / "b.yml").write_text("name: beta # b\n---\nname: 'gamma'\n", encoding="utf-8")
    (tmp_path / "broken.yaml").write_text("name: delta\n[[[", encoding="utf-8")
    (tmp_path / "other.txt").write_text("name: no\n", encoding="utf-8")
    (tmp_path / "folder.yaml").mkdir()
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "gone.yaml").symlink_to(tmp_path / "nowhere")
    assert tool_names(tmp_path) == ["alpha", "beta", "delta", "gamma"]
    assert tool_names(tmp_path / "none") == []


@pytest.fixture
def complete(
    command: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], list[str]]:
    """What the completion script of bash would be offered behind these words."""

    def ask(words: str) -> list[str]:
        monkeypatch.setenv("_TOOL_ENGINE_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", words)
        monkeypatch.setenv("COMP_CWORD", str(len(words.split(" ")) - 1))
        offered: list[str] = command().out.split()
        return offered

    return ask


def test_the_shell_completes_commands_and_tools(
    complete: Callable[[str], list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`show` and `call` complete tool names, of the folder that is named, wherever it is named."""
    other = tmp_path / "other"
    other.mkdir()
    (other / "a.yaml").write_text("name: alpha\n", encoding="utf-8")
    (other / "b.yaml").write_text("name: beta\n", encoding="utf-8")
    assert complete("tool-engine val") == ["validate"]
    assert complete("tool-engine new x --kind http") == ["http", "http_request"]
    assert complete("tool-engine simulate x --strategy fi") == ["fifo"]
    assert complete(f"tool-engine --tools {other} lint ") == ["alpha", "beta"]
    assert complete("tool-engine show ") == ["calculator", "echo", "fetch"]
    assert complete(f"tool-engine --tools {other} show ") == ["alpha", "beta"]
    assert complete(f"tool-engine call --tools {other} be") == ["beta"]
    monkeypatch.setenv("TOOL_ENGINE_TOOLS", str(other))
    assert complete("tool-engine call al") == ["alpha"]
    monkeypatch.delenv("TOOL_ENGINE_TOOLS")
    monkeypatch.chdir(tmp_path)
    assert complete("tool-engine call e") == ["echo"]


def test_the_shell_completes_words_and_what_an_option_takes(
    complete: Callable[[str], list[str]],
) -> None:
    """The words of `mcp` and the like are commands to a reader, and complete as these."""
    for name, words in WORDS.items():
        assert sorted(complete(f"tool-engine {name} ")) == sorted(words)
        assert complete(f"tool-engine {name} {words[-1][:-1]}") == [words[-1]]
    assert "claude-code" in complete("tool-engine mcp install ")
    assert complete("tool-engine mcp serve ") == []
    assert complete("tool-engine task start ca") == ["calculator"]
    for name in ("lint", "validate", "test", "lock"):
        assert complete(f"tool-engine {name} --format s") == ["sarif"]
    assert complete("tool-engine export --format ") == ["jsonl", "csv"]
    assert complete("tool-engine history --error-type time") == ["timeout"]
    assert complete("tool-engine chat --enable ca") == ["calculator"]


def test_a_word_that_completes_is_one_that_the_command_takes(command: Callable[..., Any]) -> None:
    """A command without its word lists the same words."""
    for name in ("mcp", "token"):
        assert f"'WORD', one of {', '.join(WORDS[name])}; for" in command(name).err


def test_a_file_that_cannot_be_opened_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Completion stays silent about what it cannot read."""
    (tmp_path / "a.yaml").write_text("name: alpha\n", encoding="utf-8")

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError

    monkeypatch.setattr(Path, "open", refuse)
    assert tool_names(tmp_path) == []


CHOOSING = """
name: choose
description: Chooses.
parameters:
  - {name: size, type: string, description: How, validation: {enum: [small, large, "very large"]}}
  - {name: loud, type: boolean, description: Whether}
  - {name: count, type: integer, description: How often}
"""


def test_the_shell_completes_the_arguments_of_a_call(
    complete: Callable[[str], list[str]], tools: Path
) -> None:
    """Parameters that are not given yet, and the values that a definition lists."""
    (tools / "choose.yaml").write_text(CHOOSING, encoding="utf-8")
    (tools / "broken.yaml").write_text("name: broken\nparameters: 3\n", encoding="utf-8")
    assert complete("tool-engine call choose ") == ["size=", "loud=", "count="]
    assert complete("tool-engine call choose si") == ["size="]
    assert complete("tool-engine call choose size=small count:=3 ") == ["loud="]
    assert complete("tool-engine call choose size=s") == ["size=small"]
    assert complete("tool-engine call choose loud=") == ["loud=true", "loud=false"]
    # As bash divides the words.
    assert complete("tool-engine call choose loud =") == ["true", "false"]
    assert complete("tool-engine call choose loud = f") == ["false"]
    assert complete("tool-engine call choose count=") == []
    assert complete("tool-engine call choose --si") == ["--size"]
    assert complete("tool-engine call choose --size ") == ["small", "large", "very", "large"]
    assert complete("tool-engine call choose --size = s") == ["small"]
    assert complete("tool-engine call choose --size small lo") == ["loud="]
    assert complete("tool-engine call choose size=small --") == [
        *("--loud", "--count", "--params", "--timeout", "--json", "--help")
    ]
    assert complete("tool-engine call broken ") == []
    assert complete("tool-engine call nothing ") == []


def test_the_folder_of_the_settings_is_completed_too(
    complete: Callable[[str], list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mistake in the settings is silent here."""
    place = tmp_path / "place"
    (place / "mine").mkdir(parents=True)
    (place / "mine" / "choose.yaml").write_text(CHOOSING, encoding="utf-8")
    monkeypatch.delenv("TOOL_ENGINE_TOOLS")
    monkeypatch.chdir(place)
    (place / "tool-engine.toml").write_text("tools = 'mine'")
    assert complete("tool-engine call c") == ["choose"]
    assert complete("tool-engine call choose si") == ["size="]
    (place / "tool-engine.toml").write_text("tools = ")
    assert complete("tool-engine call c") == []
