"""Does a call run that stands in code?"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from typing import Final

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.effort import share_of
from tests.protocols.text.commonmark import in_code
from tool_engine.model.reply import ParsedReply
from tool_engine.protocols.function_call import FunctionCallProtocol
from tool_engine.protocols.text.text_protocol import TextProtocol
from tool_engine.protocols.vcp import VCPProtocol

VALUES: Final = ("a", "`", "``", "a\n\nb", "```\na", "a\n```", "> a", "    a", "<!--", "- a", "\\")


def _tag(place: int, value: str) -> str:
    call = {"name": "wipe", "arguments": {"path": value, "place": str(place)}}
    return f"<function_call>{json.dumps(call)}</function_call>"


def _object(place: int, value: str) -> str:
    return json.dumps({"tool_name": "wipe", "parameters": {"path": value, "place": str(place)}})


def _block(place: int, value: str) -> str:
    return (
        f"<<<[TOOL_REQUEST]>>>\ntool_name:「始」wipe「末」,\nplace:「始」{place}「末」,\n"
        f"path:「始」{value}「末」\n<<<[END_TOOL_REQUEST]>>>"
    )


def _line(place: int, value: str) -> str:
    return _block(place, value.replace("\n", " ")).replace("\n", " ")


FORMS: Final = {"function_call": (_tag, _object), "vcp": (_block, _line)}
PROTOCOLS: Final[list[TextProtocol]] = [FunctionCallProtocol(), VCPProtocol()]
PIECES: Final = st.sampled_from(
    [
        *("`", "``", "```", "~~~", "\n", "\n\n", "\t", "    ", "  ", " ", "\n    ", ".", ", a\n"),
        *("- ", "1. ", "* ", "> ", "\n> ", "\n- ", "# ", "---", "===", "a", "it`s", "b c", "`x`"),
        *(
            "<!--",
            "-->",
            "<div>",
            '<a href="',
            '">',
            "<b>",
            "<pre>",
            "</pre>",
            "```json\n",
            "\n```\n",
        ),
        *("[", "](", ")", "]:", "\\", "<http://", "'", "("),
    ]
)
_WHOLE: Final = re.compile(r"[\s`~]*(?:json)?[\s`~]*[\ue000-\uf8ff][\s`~]*")
"""A reply that is one JSON object, which is a call in a code block, too."""
CALLS: Final = st.tuples(st.integers(0, 1), st.sampled_from(VALUES))


def _written(
    parts: list[str | tuple[int, str]], forms: tuple[Callable[[int, str], str], ...]
) -> list[str]:
    return [
        part if isinstance(part, str) else forms[part[0]](place, part[1])
        for place, part in enumerate(parts)
    ]


def _runs(reply: ParsedReply) -> list[int]:
    return [int(call.arguments["place"]) for call in reply.calls if call.is_runnable]


def _mark(place: int) -> str:
    return chr(0xE000 + place)


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda each: each.name)
@settings(max_examples=share_of(150), deadline=None)
@example(["Never write `", (0, "a"), "`"])
@example(["Never write `", (1, "a"), "`"])
@example(["Do not type `` before `", (0, "a"), "`."])
@example(["use ` or ``", (0, "a"), "``"])
@example(["``` then `", (0, "a"), "`"])
@example(["a `b\n", (1, "a"), "\nc`"])
@example(["a\n\n    ", (0, "a")])
@example(["[x](`) `", (0, "a"), "`"])
@example(["a ` b ", (0, "`")])
@example(["<!--\n```\n-->\n```\n", (0, "a"), "\n```"])
@given(parts=st.lists(st.one_of(PIECES, PIECES, PIECES, CALLS), max_size=16))
def test_no_call_in_code_runs(protocol: TextProtocol, parts: list[str | tuple[int, str]]) -> None:
    """U25: a call runs only where another reader of CommonMark sees no code.

    A call that runs is one thing in its line: what is in its arguments begins no code after it. It
    is looked at as the text that it is, too. Each text is tried ending at each of its parts, and
    fed whole, by character and in random cuts.

    Looked at: fences, indented code, code spans (over several lines; after other backticks; up to
    the end of the reply), links, HTML, lists, block quotes.
    """
    written = _written(parts, FORMS[protocol.name])
    for end in range(1, len(written) + 1):
        text = "".join(written[:end])
        reply = protocol.parse(text)
        runs = _runs(reply)
        if end % 3 == len(written) % 3:
            _check_cuts(protocol, text, reply)
        opaque = [_mark(place) if place in runs else each for place, each in enumerate(written)]
        if _WHOLE.fullmatch("".join(opaque[:end])) and protocol.name == "function_call":
            continue
        assert not in_code("".join(opaque[:end])) & set(map(_mark, runs))
        for place in runs:
            marked = [*opaque[:place], _mark(place) + written[place], *opaque[place + 1 : end]]
            assert _mark(place) not in in_code("".join(marked))


def _check_cuts(protocol: TextProtocol, text: str, whole: ParsedReply) -> None:
    cutter = random.Random(len(text))  # noqa: S311 - cuts, not secrets
    for most in (1, 9):
        decoder, place = protocol.decoder(), 0
        while place < len(text):
            size = cutter.randint(1, most)
            decoder.feed(text[place : place + size])
            place += size
        assert decoder.close() == whole
