"""Does a call need somebody's consent?"""

from __future__ import annotations

from typing import Any

import pytest

from tool_engine.errors import ConfigurationError
from tool_engine.session.permissions import (
    ExecutionPolicy,
    Permission,
    PermissionRule,
    ResultPolicy,
    decide,
)


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
    ],
)
def test_the_most_specific_rule_decides(rules: dict[str, str], expected: str) -> None:
    """U32: a value before a tool, one tool before many, a longer glob before a shorter one."""
    for order in (1, -1):
        listed = [rule(text, policy) for text, policy in list(rules.items())[::order]]
        assert execution(listed, path="drafts/a.md") == expected


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


def test_words_of_policies() -> None:
    """X3: the seed's hyphens are taken; another word is refused with the nearest one."""
    assert permission("ask-once", "on-error").execution is ExecutionPolicy.ASK_ONCE
    with pytest.raises(ConfigurationError, match="execution must be one of auto, ask_once"):
        permission("always")
    with pytest.raises(ConfigurationError, match="result must be one of never, on_error, always"):
        permission(result="sometimes")
