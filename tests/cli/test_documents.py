"""A file that the command line names is read right or refused with its place."""

import io
import sys
from pathlib import Path

import pytest

from tool_engine.cli.calls.batch_command import read_calls
from tool_engine.cli.documents import parse_json, read_document, read_entries
from tool_engine.cli.failures import CommandError


def write(path: Path, text: str) -> str:
    path.write_text(text, encoding="utf-8")
    return str(path)


def set_stdin(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("{", "line 1 column 2"),
        ('{"a": 1} x', "Extra data"),
        ('{"a": 1, "b": 2, "a": 3}', "'a' stands twice"),
        ("[Infinity]", "Infinity"),
        ("[" * 100_000, "nested too deeply"),
        ("9" * 5_000, "not JSON"),
    ],
)
def test_json_that_could_mean_two_things_is_refused(text: str, part: str) -> None:
    """Strict JSON: no duplicate keys, no NaN, nothing behind the end, and no traceback."""
    with pytest.raises(CommandError, match="here: not JSON") as caught:
        parse_json(text, "here")
    assert part in str(caught.value)


def test_the_form_follows_the_name_then_the_first_character(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`.json` is JSON, `.yaml` is YAML, and stdin is what it looks like."""
    assert read_document(write(tmp_path / "a.json", '{"a": 1}')) == {"a": 1}
    assert read_document(write(tmp_path / "bom.json", '\ufeff{"a": 1}')) == {"a": 1}
    assert read_document(write(tmp_path / "a.yml", "a: yes")) == {"a": "yes"}
    assert read_document(write(tmp_path / "noname", "a: 2")) == {"a": 2}
    set_stdin(monkeypatch, '\ufeff {"a": 3}')
    assert read_document("-") == {"a": 3}
    set_stdin(monkeypatch, "a: 4")
    assert read_document("-") == {"a": 4}


def test_yaml_faults_name_file_line_and_column(tmp_path: Path) -> None:
    """A duplicate key in YAML is refused with its place."""
    path = write(tmp_path / "a.yaml", "a: 1\na: 2\n")
    with pytest.raises(CommandError, match=r"a\.yaml:2:1"):
        read_document(path)
    two = write(tmp_path / "two.yaml", "a: 1\n---\nb: 2\n")
    with pytest.raises(CommandError, match="found 2"):
        read_document(two)


def test_a_file_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    """Missing, a folder, or no text: one message each."""
    with pytest.raises(CommandError, match="No such file"):
        read_document(str(tmp_path / "none.json"))
    with pytest.raises(CommandError, match="Is a directory"):
        read_document(str(tmp_path))
    (tmp_path / "latin.json").write_bytes(b'"\xe9"')
    with pytest.raises(CommandError, match="not UTF-8"):
        read_document(str(tmp_path / "latin.json"))


BATCHES = {
    "list.json": '[{"tool": "echo", "params": {"message": "a"}}, ["add", {"x": 1}], ["noop"]]',
    "list.yaml": "- tool: echo\n  params: {message: a}\n- [add, {x: 1}]\n- tool: noop\n",
    "docs.yaml": "tool: echo\nparams: {message: a}\n---\n[add, {x: 1}]\n---\ntool: noop\n",
    "lines.jsonl": '{"tool": "echo", "params": {"message": "a"}}\n\n["add", {"x": 1}]\n["noop"]\n',
    "lines.txt": '{"tool": "echo", "params": {"message": "a"}}\n["add", {"x": 1}]\n["noop"]\n',
    "lists.txt": '["echo", {"message": "a"}]\n["add", {"x": 1}]\n["noop", null]\n',
    "pretty.txt": '[\n["echo", {"message": "a"}],\n["add", {"x": 1}],\n["noop", {}]\n]\n',
}


@pytest.mark.parametrize("name", BATCHES)
def test_every_form_of_a_batch_is_read(tmp_path: Path, name: str) -> None:
    """A JSON list, a YAML list or documents, and JSON lines mean the same calls, in order."""
    calls = read_calls(write(tmp_path / name, BATCHES[name]))
    assert calls == [("echo", {"message": "a"}), ("add", {"x": 1}), ("noop", {})]


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "holds no calls"),
        ('{"tool": "echo"', "jsonl:1: not JSON"),
        ('["a"]\n{"tol": "echo"}', "jsonl:2: unknown key 'tol'; did you mean 'tool'?"),
        ('{"params": {}}', "names no tool"),
        ('["a", {}, 3]', "no call; write"),
        ('"echo"', "no call; write"),
        ('["a", [1]]', "params must be an object, got list"),
    ],
)
def test_a_wrong_entry_stops_the_batch_before_it_runs(tmp_path: Path, text: str, part: str) -> None:
    """The message names the line; nothing was run."""
    with pytest.raises(CommandError) as caught:
        read_calls(write(tmp_path / "calls.jsonl", text))
    assert part in str(caught.value)


def test_an_empty_list_is_no_batch(tmp_path: Path) -> None:
    """A batch without calls is more likely a mistake upstream than a wish."""
    with pytest.raises(CommandError, match="holds no calls"):
        read_calls(write(tmp_path / "calls.json", "[]"))


def test_a_batch_that_is_no_list_is_refused(tmp_path: Path) -> None:
    """One object of a tool in JSON is no list of calls."""
    with pytest.raises(CommandError, match="expected a list of calls, found a dict"):
        read_entries(write(tmp_path / "one.yaml", "tool: echo\n"))
