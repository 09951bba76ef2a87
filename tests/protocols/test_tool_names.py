"""Names of tools and the names that are sent for them are one to one, everywhere and always."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
from collections.abc import Iterable
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.catalog.search_catalog import catalog
from tests.effort import share_of
from tool_engine.errors import ConfigurationError
from tool_engine.model.tool import Tool
from tool_engine.protocols.tool_names import ANY_NAME, KnownTools, NameRule

SAMPLE = replace(catalog()[0], tags=[], parameters=[])
STRICT = NameRule(re.compile(r"[A-Za-z0-9_-]{1,64}"), 64, "letters")
LETTER_FIRST = NameRule(re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,63}"), 64, "a letter first")
RULES = [STRICT, LETTER_FIRST]
NAMES = st.one_of(
    st.text(max_size=80),
    st.text(alphabet="ab_-.:1天 ", max_size=70),
    st.text(alphabet="天地", min_size=1, max_size=2),
    st.from_regex(r"\A[a-z_]{0,3}__[0-9a-f]{12}\Z"),
)


def named(*names: str) -> list[Tool]:
    return [replace(SAMPLE, name=name) for name in names]


class Catalog:
    """A catalog that counts how often it is looked through."""

    def __init__(self, *names: str) -> None:
        self.generation = 0
        self.looks = 0
        self.put(*names)

    def put(self, *names: str) -> None:
        self.tools = {tool.name: tool for tool in named(*names)}
        self.generation += 1

    def get(self, name: str) -> Tool | None:
        return self.tools.get(name)

    def list_all(self) -> list[Tool]:
        self.looks += 1
        return list(self.tools.values())


@pytest.mark.parametrize("rule", RULES)
@settings(max_examples=share_of(120), deadline=None)
@given(names=st.lists(NAMES, max_size=12, unique=True), random=st.randoms(use_true_random=False))
def test_one_to_one(rule: NameRule, names: list[str], random: Random) -> None:
    """D17: two tools never share a sent name, whatever they are called and in whatever order."""
    known = KnownTools(rule, named(*names))
    sent = [known.sent_name(name) for name in names]
    assert len(set(sent)) == len(names)
    assert all(rule.accepts(each) for each in sent)
    assert [known.meant_name(each) for each in sent] == names
    shuffled = random.sample(names, len(names))
    later = KnownTools(rule)
    for name in shuffled:
        later.learn(named(name))
    assert [later.sent_name(name) for name in names] == sent
    # Sent forms that are names of tools themselves make no confusion either.
    both = list(dict.fromkeys([*names, *sent]))
    mixed = KnownTools(rule, named(*both))
    assert [mixed.meant_name(mixed.sent_name(name)) for name in both] == both
    assert [mixed.sent_name(name) for name in names] == sent


@settings(max_examples=share_of(60), deadline=None)
@given(name=NAMES)
def test_what_is_accepted_stays(name: str) -> None:
    """A name that the provider takes is sent as it is, but one that looks like a stand-in."""
    known = KnownTools(STRICT)
    looks_like_ours = re.fullmatch(r"[\s\S]*__(?:[0-9a-f]{12})+", name) is not None
    is_kept = STRICT.accepts(name) and not looks_like_ours
    assert (known.sent_name(name) == name) is is_kept


def test_another_process_sends_the_same() -> None:
    """A sent name depends on nothing but the name: not on the hash seed, the order, the time."""
    code = (
        "import re; from tool_engine.protocols.tool_names import *;"
        "rule = NameRule(re.compile('[A-Za-z0-9_-]{1,64}'), 64, '');"
        "print(KnownTools(rule).sent_name('\\u5929 \\u6c14.x'), end='')"
    )
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    sent = KnownTools(STRICT).sent_name("天 气.x")
    assert other.stdout == sent
    assert sent == "x__" + sent[-12:]


def test_heads() -> None:
    """As much of a name as fits stays readable; what no provider takes first gets a word."""
    known = KnownTools(LETTER_FIRST)
    assert known.sent_name("web search").startswith("web_search__")
    assert known.sent_name("查询").startswith("tool__")
    assert known.sent_name("1st place").startswith("tool_1st_place__")
    assert len(known.sent_name("x" * 100)) == 64
    assert KnownTools(ANY_NAME).sent_name("查询 天气") == "查询 天气"


def test_hashes_that_begin_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even two names of one hash are two: the later one gets a longer end."""
    digests = itertools.cycle(["a" * 64, "a" * 12 + "b" * 52])

    class Digest:
        def __init__(self, _: bytes) -> None:
            self.value = next(digests)

        def hexdigest(self) -> str:
            return self.value

    monkeypatch.setattr("tool_engine.protocols.tool_names.hashlib.sha256", Digest)
    known = KnownTools(STRICT, named("天", "地"))
    assert known.sent_name("天") == "tool__" + "a" * 12
    assert known.sent_name("地") == "tool__" + "a" * 12 + "b" * 12


def test_a_models_own_spelling() -> None:
    """The own name of a tool, copied from a description, is as good as the sent one."""
    known = KnownTools(STRICT, named("a.b", "c"))
    assert known.meant_name("a.b") == "a.b"
    assert known.meant_name("c") == "c"
    assert known.meant_name("nobody") == "nobody"
    assert known.get("a.b") is not None
    assert known.get("nobody") is None
    assert repr(known) == "KnownTools(2 told of, 2 names sent)"


def test_a_name_that_another_process_sent() -> None:
    """A history that was restored: its names are found through the catalog, looked at once."""
    sent = KnownTools(STRICT).sent_name("查询 天气")
    tools = Catalog("查询 天气", "plain")
    known = KnownTools(STRICT, tools)
    assert known.meant_name("plain") == "plain"
    assert tools.looks == 0
    for _ in range(3):
        assert known.meant_name(sent) == "查询 天气"
        assert known.meant_name("x__" + "0" * 12) == "x__" + "0" * 12
    assert tools.looks == 1
    tools.put("other 天气")
    assert known.meant_name(sent) == sent
    assert known.meant_name(KnownTools(STRICT).sent_name("other 天气")) == "other 天气"
    assert tools.looks == 2


@pytest.mark.parametrize("make", [lambda tools: {t.name: t for t in tools}, iter, list])
def test_any_catalog(make: Any) -> None:
    """A mapping, a list and an iterator of tools all find the tool of a sent name."""
    tools: Iterable[Tool] = make(named("查询 天气"))
    known = KnownTools(STRICT, tools)
    assert known.meant_name(KnownTools(STRICT).sent_name("查询 天气")) == "查询 天气"

    class OnlyGet:
        def get(self, name: str) -> Tool | None:
            return None

    sent = KnownTools(STRICT).sent_name("查询 天气")
    assert KnownTools(STRICT, OnlyGet()).meant_name(sent) == sent


def test_names_of_models_are_not_kept() -> None:
    """A model that makes up names without end fills no memory, and takes no name from a tool."""
    known = KnownTools(STRICT)
    for number in range(100):
        known.sent_name(f"made up {number}")
        known.meant_name(f"made_up_{number}")
    assert repr(known) == "KnownTools(0 told of, 0 names sent)"


def test_a_tool_that_changed_is_the_new_one() -> None:
    """After a reload the name stays, and the tool is what was told last."""
    known = KnownTools(STRICT, named("a.b"))
    sent = known.sent_name("a.b")
    (new,) = known.learn([replace(SAMPLE, name="a.b", description="New.")])
    assert known.get("a.b") is new
    assert known.sent_name("a.b") == sent


def test_names_in_pieces() -> None:
    """A name that is a beginning of a longer one may not be all of it yet."""
    known = KnownTools(STRICT, named("look", "look_up"))
    assert known.is_beginning("look")
    assert not known.is_beginning("look_up")
    known.learn(named("look_up_all"))
    assert known.is_beginning("look_up")
    assert not known.is_beginning("lop")
    assert not known.is_beginning("z")


def test_two_tools_of_one_name() -> None:
    """D17: of two different tools of one name, none is silently the one; the same twice is one."""
    (one,) = named("search")
    known = KnownTools(STRICT)
    assert known.learn([one, replace(one)]) == [one]
    with pytest.raises(ConfigurationError, match=r"two tools are named 'search'.*CombinedTools"):
        known.learn([one, replace(one, description="Another.")])


def test_the_spelling_of_any_name() -> None:
    """What a model wrote for a name goes back in a form that the provider takes."""
    spelled = STRICT.spell
    assert [spelled(name) for name in ("a b", "ok", "", None, "x" * 99)] == [
        *("a_b", "ok", "unnamed", "unnamed", "x" * 64)
    ]


@pytest.mark.parametrize("tools", [None, 5, "add", ["add"], [None], SAMPLE])
def test_what_is_no_list_of_tools_is_refused(tools: Any) -> None:
    """Whoever passes one tool, or names, learns what to pass."""
    with pytest.raises(ConfigurationError, match=r"engine\.(list_all|get)\("):
        KnownTools(ANY_NAME).learn(tools)
