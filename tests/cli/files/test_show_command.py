"""`show` prints all that a definition says of one tool or group, and no secret."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

BROKEN = "name: broken\ndescription: x\nparameters: [half"
GROUP = """\
kind: group
name: talk
tags: [text]
off: [fetch]
permission: ask_once
rules: '{{tool}}'
"""


def test_show_prints_everything_about_a_tool(command: Callable[..., Any]) -> None:
    """Parameters with rules and defaults, entry, limits, and a line to try."""
    ended = command("show", "echo")
    text = " ".join(ended.out.split())
    for part in ("message", "min: 1", "max: 3", ["handler", "builtin"][0], "bucket", "custom"):
        assert part in text
    assert "try: tool-engine call echo message=..." in text


def test_show_json_hides_secrets(command: Callable[..., Any]) -> None:
    """The JSON form has the schema, the limits and the entry, whose secrets are hidden."""
    shown = command("show", "fetch", "--json").json
    assert shown["parameters"]["required"] == ["url"]
    assert shown["limits"]["rate"] == "10/s"
    assert shown["limits"]["bucket"] == "web"
    assert shown["limits"]["retry"]["attempts"] == 2
    assert shown["example"] == "tool-engine call fetch url=..."
    assert "secret-value" not in str(shown)
    assert "secret-value" not in command("show", "fetch").out


def test_show_tells_how_calls_are_admitted(command: Callable[..., Any], tools: Path) -> None:
    """`limits` has all of the definition's `concurrency`; a table leaves out what is not set."""
    (tools / "pay.yaml").write_text(
        "name: pay\ndescription: x\nconcurrency:\n  queue_timeout: 3\n  key: conversation_id\n"
        "  key_limit: 2\n  weight: 2\n  collision: reject\n  breaker: {failures: 2, probes: 3}\n",
        encoding="utf-8",
    )
    limits = command("show", "pay", "--json").json["limits"]
    assert (limits["queue_timeout"], limits["weight"]) == (3.0, 2)
    assert (limits["key"], limits["key_limit"]) == ("conversation_id", 2)
    assert limits["collision"] == "reject"
    assert limits["breaker"] == {"failures": 2, "reset_after": 30.0, "probes": 3}
    table = " ".join(command("show", "pay").out.split())
    for part in ("queue_timeout", "3", "conversation_id", "reject", '"failures": 2'):
        assert part in table
    bare = command("show", "echo")
    for name in ("queue_timeout", "key", "collision", "breaker"):
        assert command("show", "echo", "--json").json["limits"][name] is None
        assert name not in bare.out


def test_show_prints_the_findings_of_a_tool(command: Callable[..., Any], tools: Path) -> None:
    """A warning about the definition is shown; a tool without parameters has no table of them."""
    text = "name: odd\ndescription: x\nparameters:\n  - {name: a, type: string, description: x"
    (tools / "odd.yaml").write_text(f"{text}, required: true, default: y}}\n", encoding="utf-8")
    (tools / "bare.yaml").write_text("name: bare\ndescription: x\n", encoding="utf-8")
    assert "odd.yaml:4:" in command("show", "odd").out.replace("\n", "")
    assert "warning:" in command("show", "odd").out
    assert "warning:" in command("validate").out
    assert "parameters" not in command("show", "bare").out


def test_show_of_an_unknown_tool_names_the_nearest(
    command: Callable[..., Any], tools: Path
) -> None:
    """Exit code 2, the nearest name, and that a file could not be loaded: it may be in one."""
    (tools / "broken.yaml").write_text(BROKEN, encoding="utf-8")
    ended = command("show", "ecko")
    assert ended.code == 2
    assert "did you mean 'echo'?" in ended.err
    assert "1 file could not be loaded; see tool-engine validate" in ended.err
    assert "there are: calculator, echo, fetch" in command("show", "zzz").err
    empty = tools / "empty"
    empty.mkdir()
    assert command("--tools", str(empty), "show", "x").err.endswith(
        f"there is no tool file in {empty}; write one with `tool-engine new NAME`\n"
    )
    as_json = command("show", "ecko", "--json")
    assert as_json.json["error"]["type"] == "tool_not_found"
    assert as_json.err == ""


def test_a_group_is_shown(command: Callable[..., Any], tools: Path) -> None:
    """S10: `show` knows groups; a tool of the same name goes first."""
    (tools / "talk.yaml").write_text(GROUP, encoding="utf-8")
    shown = command("show", "talk", "--json").json
    assert (shown["disabled_tools"], shown["permission"]["execution"]) == (["fetch"], "ask_once")
    ended = command("show", "talk")
    assert (ended.code, "group talk" in ended.out, "warning: " in ended.out) == (0, True, True)
    missing = command("show", "tlk")
    assert (missing.code, "did you mean 'talk'?" in missing.err) == (2, True)


def test_what_sessions_read_of_a_tool_is_shown(command: Callable[..., Any], tools: Path) -> None:
    """S2: who is asked, what is taken and how often it may run stand among the limits."""
    (tools / "own.yaml").write_text(
        "name: own\ndescription: x\npermission: deny\naccepts: []\nmax_uses: 2\n",
        encoding="utf-8",
    )
    limits = command("show", "own", "--json").json["limits"]
    permission = {"execution": "deny", "result": None, "client_may_answer": False}
    assert limits["permission"] == permission
    assert (limits["accepts"], limits["max_uses"]) == ([], 2)
