"""Does a call need somebody's consent?"""

from __future__ import annotations

from typing import Any

import pytest

from tool_engine.approval import matching
from tool_engine.approval.policy import PermissionRule, decide
from tool_engine.errors import ConfigurationError
from tool_engine.model.permission import ExecutionPolicy, Permission, ResultPolicy


def rule(text: str, execution: str | None = None, result: str | None = None) -> PermissionRule:
    return PermissionRule.parse(text, permission(execution, result))


def permission(execution: str | None = None, result: str | None = None) -> Permission:
    return Permission(
        execution=execution,  # type: ignore[arg-type] # texts are taken too
        result=result,  # type: ignore[arg-type]
    )


def execution(rules: list[PermissionRule], tool: str = "write_file", **params: Any) -> str:
    return decide(tool, params, rules, []).execution.value


def test_without_a_word_a_call_runs() -> None:
    """U34: auto and never are the defaults."""
    decision = decide("echo", {}, [], [None, Permission()])
    assert decision.execution is ExecutionPolicy.AUTO
    assert decision.result is ResultPolicy.NEVER


def test_the_first_place_that_says_it_decides() -> None:
    """S2, U34: the user's override before the tool's own; each of the two is looked for alone."""
    places = [
        permission(result="always"),
        None,
        permission("ask_once", "never"),
        permission("deny"),
    ]
    decision = decide("echo", {}, [], places)
    assert (decision.execution.value, decision.result.value) == ("ask_once", "always")


def test_a_rule_goes_before_every_place() -> None:
    """X3: what is said of this call decides before what is said of all."""
    decision = decide("echo", {}, [rule("echo", "auto")], [permission("deny", "always")])
    assert (decision.execution.value, decision.result.value) == ("auto", "always")


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ({"*": "deny", "write_*": "ask_once"}, "ask_once"),
        ({"write_*": "deny", "write_file": "auto"}, "auto"),
        ({"write_file": "deny", "*:path=drafts/*": "auto"}, "auto"),
        ({"write_file:path=*": "auto", "write_file:path=drafts/*": "ask_always"}, "ask_always"),
        ({"write_file:path=drafts/*.md": "auto", "write_file:path=drafts/*": "deny"}, "auto"),
        ({"read_file": "deny", "Write_file": "deny"}, "auto"),
        ({"write_file:other=*": "deny"}, "auto"),
        ({"write_file:path=drafts/a.md": "auto", "write_file:path=drafts/a.md*": "deny"}, "auto"),
        ({"write_file:path=[a-z]*/[!x]*": "auto", "write_file:path=drafts/*": "deny"}, "deny"),
        (
            {"write_file:path=drafts/[a-z].md": "deny", "write_file:path=drafts/a.md": "auto"},
            "auto",
        ),
    ],
)
def test_the_most_specific_rule_decides(rules: dict[str, str], expected: str) -> None:
    """U32: a value before a tool, one tool before many, a longer glob before a shorter one."""
    for order in (1, -1):
        listed = [rule(text, policy) for text, policy in list(rules.items())[::order]]
        assert execution(listed, path="drafts/a.md") == expected


def test_values_of_several_parameters_are_not_compared() -> None:
    """X3: a model that chooses what it sends beside a path does not get round the path's rule."""
    rules = [rule("w:path=/etc/*", "deny"), rule("w:note=a long and harmless*", "auto")]
    for listed in (rules, rules[::-1]):
        assert execution(listed, "w", path="/etc/x", note="a long and harmless one") == "deny"
    assert execution(rules, "w", path="home/x", note="a long and harmless one") == "auto"


@pytest.mark.parametrize(
    ("glob", "value"),
    [
        ("100", 100.0),
        ("10?", 100.0),
        ("100.0", 100),
        ("1e2", 100),
        ("True", True),
        ("secrets/*", ["a", "secrets/b"]),
        ("secrets/*", {"from": [{"path": "./secrets/b"}]}),
        ("7", [1, [7.0]]),
    ],
)
def test_other_spellings_of_a_value(glob: str, value: Any) -> None:
    """A strict rule holds for a value however a model writes it, and wherever it hides it; a loose
    one does not."""
    assert execution([rule(f"pay:x={glob}", "deny")], "pay", x=value) == "deny"
    loose = [rule(f"pay:x={glob}", "auto"), rule("pay", "ask_always")]
    assert execution(loose, "pay", x=value) == "ask_always"


@pytest.mark.parametrize("value", [10.5, 101, "x", None, False, float("inf"), ["a"], {}, 10**400])
def test_values_that_are_others(value: Any) -> None:
    """What is another value is no spelling of it."""
    rules = [rule("pay:x=100", "deny"), rule("pay:x=True", "deny"), rule("pay:x=b*", "deny")]
    assert execution(rules, "pay", x=value) == "auto"


def test_a_rule_about_one_tool_needs_no_pattern() -> None:
    """X3: rules about thousands of tools do not have to be made into patterns, call by call."""
    rules = [rule(f"tool_{number}:path=x", "deny") for number in range(5_000)]
    before = matching._compile_glob.cache_info().misses
    for _ in range(2):
        assert execution(rules, "tool_7", path="x") == "deny"
        assert execution(rules, "other", path="x") == "auto"
    assert matching._compile_glob.cache_info().misses == before


def test_a_loose_rule_does_not_look_into_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    """What only looks as if it fitted counts for nothing there."""
    monkeypatch.delattr(matching.Argument, "is_like")
    assert execution([rule("w:path=a/*", "auto", "never")], "w", path=["a/b"]) == "auto"


def test_of_equal_rules_the_strictest_decides() -> None:
    """Two rules that say different things of one call: the order in which they stand is no vote."""
    both = [rule("a*", "auto", "never"), rule("*a", "deny", "on_error"), rule("a*", "ask_once")]
    for listed in (both, both[::-1]):
        decision = decide("aa", {}, listed, [])
        assert (decision.execution.value, decision.result.value) == ("deny", "on_error")


@pytest.mark.parametrize(
    "path",
    [
        "drafts/../secrets",
        "drafts/..",
        "drafts/a\nb",
        "drafts/\0",
        "drafts\\..\\x",
        "drafts/a/../../b",
    ],
)
def test_a_loose_rule_cannot_be_tricked(path: str) -> None:
    """A value that only looks as if it were allowed is not."""
    rules = [rule("write_file", "ask_always"), rule("write_file:path=drafts*", "auto")]
    assert execution(rules, path="drafts/a") == "auto"
    assert execution(rules, path=path) == "ask_always"


@pytest.mark.parametrize("path", ["secrets/a", "./secrets/a", "x/../secrets/a", "secrets//a"])
def test_a_strict_rule_cannot_be_dodged(path: str) -> None:
    """Another spelling of a value that is denied is denied, too."""
    assert execution([rule("write_file:path=secrets/*", "deny")], path=path) == "deny"


@pytest.mark.parametrize("text", ["\u200bsecrets/a", "secrets\u00ad/a", "\u202esecrets/a"])
@pytest.mark.parametrize("word", ["deny", "ask_always", "ask_once"])
def test_a_strict_rule_sees_what_nobody_sees(text: str, word: str) -> None:
    """A value that looks like one that is denied, or asked about, is; no loose rule fits it."""
    assert execution([rule("pay:text=secrets/*", word)], "pay", text=text) == word
    loose = [rule("pay:text=*secrets*", "auto"), rule("pay", "deny")]
    assert execution(loose, "pay", text=text) == "deny"


def test_values_that_are_no_text() -> None:
    """A glob sees what a model sees: JSON."""
    assert execution([rule("*:count=1?", "deny")], count=12) == "deny"
    assert execution([rule("*:flag=true", "deny")], flag=True) == "deny"
    assert execution([rule("*:to=*evil*", "deny")], to=["a@good", "b@evil"]) == "deny"
    assert execution([rule("*:to=*", "deny")], to="") == "deny"
    assert execution([rule("*:to=", "deny")], to="") == "deny"
    assert execution([rule("*:to=", "deny")], to="x") == "auto"


def test_silent_refusals() -> None:
    """U32: a rule may keep its reason from the model; the next rule does not matter."""
    rules = [rule("run::SilentReject", "deny"), rule("*", "deny")]
    assert decide("run", {}, rules, []).is_silent
    assert not decide("other", {}, rules, []).is_silent


def test_a_command_by_its_word() -> None:
    """U32: `tool:word` is about the calls whose `command` it is."""
    assert execution([rule("plugin:remove", "deny")], "plugin", command="remove") == "deny"
    assert execution([rule("plugin:remove", "deny")], "plugin", command="list") == "auto"


@pytest.mark.parametrize("text", ["", "a b", "a:b=c".replace("a", ""), "a::", ":x", "a:=b"])
def test_texts_that_are_no_rule(text: str) -> None:
    """A rule that nobody can read is refused with the forms that there are."""
    with pytest.raises(ConfigurationError, match="is no permission rule: write 'tool', or"):
        rule(text, "deny")


def test_older_words_of_policies() -> None:
    """X3, U34: the words of the older format mean the same wherever a policy is said."""
    older = {"public": "auto", "moderate": "ask_once", "sensitive": "ask_always"}
    assert {word: permission(word) for word in older} == {
        word: permission(meaning) for word, meaning in older.items()
    }
    with pytest.raises(ConfigurationError):
        permission(None, "public")


def test_words_of_policies() -> None:
    """X3: the seed's hyphens are taken; another word is refused with the nearest one."""
    assert permission("ask-once", "on-error").execution is ExecutionPolicy.ASK_ONCE
    with pytest.raises(ConfigurationError, match="execution must be one of auto, ask_once"):
        permission("always")
    with pytest.raises(ConfigurationError, match="result must be one of never, on_error, always"):
        permission(result="sometimes")


def test_a_rule_for_any_name_of_the_tool_holds() -> None:
    """A tool that a conversation shows under another name is denied under both; how long the names
    are, or how much of them a rule spells, is no way around."""
    shown = {"other_names": ("web_search_of_all",)}

    def said(**rules: str) -> str:
        listed = [rule(text.replace("STAR", "*"), policy) for text, policy in rules.items()]
        return decide("find", {}, listed, [], **shown).execution.value

    assert said(find="deny") == "deny"
    assert said(web_search_of_all="deny") == "deny"
    assert said(find="deny", web_search_of_all="auto") == "deny"
    assert said(find="auto", web_search_of_all="deny") == "deny"
    assert said(fiSTAR="deny", web_search_of_STAR="auto") == "deny"
    assert said(STAR="ask_always", web_search_of_all="auto") == "auto"
    assert said(STAR="ask_always", find="auto") == "auto"
    assert said(STAR="ask_always", web_STAR="auto") == "auto"
    assert said(STAR="deny") == "deny"


def test_who_decided() -> None:
    """The rule, the number of the place, or nobody: whoever wonders about a refusal is told."""
    rules = [rule("run:path=x/*::SilentReject", "deny"), rule("run", None, "always")]
    decision = decide("run", {"path": "x/a"}, rules, [])
    assert decision.execution_by == "run:path=x/*::SilentReject"
    assert decision.result_by == "run"
    assert (decision.is_silent, decision.is_result_silent) == (True, False)
    places = [None, permission("deny"), permission("auto", "always")]
    decision = decide("run", {}, [], places)
    assert (decision.execution_by, decision.result_by) == (1, 2)
    decision = decide("run", {}, [], [])
    assert (decision.execution_by, decision.result_by) == (None, None)


def test_a_silent_rule_about_results() -> None:
    """U32: silence is that of the word that decides, not of whatever else was said."""
    rules = [rule("run::SilentReject", None, "always"), rule("run", "deny")]
    decision = decide("run", {}, rules, [])
    assert (decision.is_silent, decision.is_result_silent) == (False, True)


@pytest.mark.parametrize("text", ["a", "a:b=c", "a*:b=", "a:b=*::SilentReject", "a::SilentReject"])
def test_a_rule_is_what_it_was_read_from(text: str) -> None:
    """The text of a rule in a message is the one that its author wrote."""
    assert rule(text, "deny").text == text


@pytest.mark.parametrize(
    "path",
    ["secrets\\a", " secrets/a", "re\u0301sume\u0301/a", "./secrets\\..\\secrets/a"],
)
def test_spellings_of_what_is_denied(path: str) -> None:
    """Backslashes, blanks around it and letters in two parts do not get round a rule; what is said
    loosely is not said of them."""
    strict = [rule("*:path=secrets/*", "deny"), rule("*:path=résumé/*", "deny")]
    loose = [
        rule("*", "ask_always"),
        rule("*:path=secrets/*", "auto"),
        rule("*:path=résumé/*", "auto"),
    ]
    assert execution(strict, path=path) == "deny"
    assert execution(loose, path=path) == "ask_always"


def test_one_rule_with_a_loose_and_a_strict_word() -> None:
    """Of a value that only looks as if it fitted, the strict word holds and the loose one not."""
    rules = [rule("w:path=a/*", "auto", "always"), rule("w", "ask_once", "never")]
    decision = decide("w", {"path": "a/../b"}, rules, [])
    assert (decision.execution.value, decision.result.value) == ("ask_once", "always")
    rules = [rule("w:path=a/*", "deny", "never"), rule("w", "auto", "on_error")]
    decision = decide("w", {"path": "a/../b"}, rules, [])
    assert (decision.execution.value, decision.result.value) == ("deny", "on_error")
