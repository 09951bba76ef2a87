"""Does a definition say so where YAML cuts or joins a text of its author?"""

from __future__ import annotations

import pytest

from tool_engine import ToolConfigLoader

HEAD = "name: t\n"
TAIL = """parameters:
  - {name: q, type: string, required: true, description: What}
entry: {type: builtin, handler: echo}
"""
CUT = "the text ends before this #"
JOINED = "this line is no line of its own"


def findings(text: str) -> list[str]:
    return ToolConfigLoader().load_text(HEAD + text + TAIL, "t.yaml").findings


@pytest.mark.parametrize(
    ("text", "place", "said", "cured"),
    [
        ("description: Says #it\n", "2:19", CUT, 'description: "Says #it"\n'),
        ("description: Says #it\n", "2:19", CUT, "description: Says # it\n"),
        ("description: See no. # 5\n", "2:22", CUT, "description: See no. '# 5'\n"),
        ("description: Says C# and\n  more #it\n", "3:8", CUT, "description: Says C# and more\n"),
        ("description: a\nauthor: Ann #1 and me\n", "3:13", "", "description: a\n"),
        (
            "description: a\ntitle: Tool #1\n",
            "3:13",
            CUT,
            "description: a\ntitle: 'Tool #1'\n",
        ),
        ("description: >\n  Steps\n  - one\n", "4:3", JOINED, "description: |\n  Steps\n  - one\n"),
        (
            "description: >\n  Steps\n  1. one\n",
            "4:3",
            JOINED,
            "description: >\n  Steps\n\n  1. a\n",
        ),
        ("description: >\n  Steps\n  - one\n", "4:3", JOINED, "description: >\n  It\n    - a\n"),
        ("description: Steps\n  * one\n", "3:3", JOINED, "description: |\n  Steps\n  * one\n"),
        ("description: 'Steps\n  - one'\n", "3:3", JOINED, "description: Steps, one\n"),
        ("description: >\n  A\n  | a | b |\n", "4:3", JOINED, "description: |\n  A\n  | a | b |\n"),
    ],
)
def test_what_is_lost(text: str, place: str, said: str, cured: str) -> None:
    """It has its place and a cure, and none with the cure."""
    found = findings(text)
    assert [each.startswith(f"t.yaml:{place}: ") for each in found] == [True] * bool(said)
    assert all(said in each for each in found)
    assert findings(cured) == []


@pytest.mark.parametrize(
    "text",
    [
        "description: Says it  # for all\n",
        "description: Says it  #lint: ignore L103\n",
        "description: Says it  #noqa: E501\n",
        "description: Says it ####\n",
        "description: Says C#\ntags: [a]  #1\n",
        "description: 'Says it'  #quoted\n",
        "description: Says it\ntimeout: 5  #seconds\neffect: read  #only\n",
        "description: >\n  Says\n  it\n",
        "description: Says\n  -it- and 1.5\n",
        "description: Says it\ntags:\n  - a\n  - b\n",
        'description: "Says it\\n\\\n  - one"\n',
    ],
)
def test_what_is_not_lost(text: str) -> None:
    assert findings(text) == []


def test_sql_below_a_folding_sign() -> None:
    """Lines that are joined are one comment from the first -- on."""
    body = f"description: Asks\n{TAIL.partition('entry')[0]}"
    body += "entry:\n  type: builtin\n  handler: sql_query\n  source: main\n  sql: SIGN\n"
    body += "    SELECT :q -- the q\n    FROM t\n"
    for sign, count in ((">", 1), ("|", 0)):
        found = ToolConfigLoader().load_text(HEAD + body.replace("SIGN", sign), "t.yaml").findings
        assert len(found) == count
        assert all("t.yaml:10:5: entry.sql: the rest is in this comment" in each for each in found)


def test_a_secret_is_not_shown() -> None:
    text = "description: a\nparameters:\n  - {name: q, type: string, secret: true,\n"
    text += "     default: my own #word, description: What}\n"
    text = text.replace(" #word, description: What}", " #word\n     , description: What}")
    (found,) = ToolConfigLoader().load_text(HEAD + text, "t.yaml").findings
    assert CUT in found
    assert "word" not in found
    assert "my own" not in found
