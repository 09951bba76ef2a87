"""`${env:NAME}`: read when the call needs it, hidden from then on."""

from __future__ import annotations

import pytest

from tool_engine.errors import ToolExecutionError
from tool_engine.executors.secrets import SecretPart, SecretScope
from tool_engine.redaction import redact_text


def test_a_variable_that_is_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the variable, never a value."""
    monkeypatch.delenv("SAMPLE_KEY", raising=False)
    with pytest.raises(ToolExecutionError, match="SAMPLE_KEY is not set"):
        SecretScope().resolve(SecretPart("SAMPLE_KEY"))
    monkeypatch.setenv("SAMPLE_KEY", "")
    with pytest.raises(ToolExecutionError, match="SAMPLE_KEY is empty"):
        SecretScope().resolve(SecretPart("SAMPLE_KEY"))


def test_a_secret_is_hidden_in_every_form(monkeypatch: pytest.MonkeyPatch) -> None:
    """As it is, and percent-encoded as it was sent; in keys, lists and mappings."""
    monkeypatch.setenv("SAMPLE_KEY", "s3cr/t val+ue")
    scope = SecretScope()
    assert scope.resolve(SecretPart("SAMPLE_KEY")) == "s3cr/t val+ue"
    value = {"a s3cr/t val+ue": ["s3cr%2Ft%20val%2Bue", 1, None, {"b": "s3cr%2Ft+val%2Bue"}]}
    assert scope.hide(value) == {"a [hidden]": ["[hidden]", 1, None, {"b": "[hidden]"}]}
    assert scope.holds("x s3cr/t val+ue")
    assert not scope.holds("x")
    assert redact_text("s3cr/t val+ue") == "[hidden]"


def test_a_secret_within_another_one() -> None:
    """The longer one is hidden whole, whichever was resolved first."""
    for values in (("abcd", "xxabcdyy"), ("xxabcdyy", "abcd")):
        scope = SecretScope()
        for value in values:
            scope.hide_value(value)
        assert scope.hide("a xxabcdyy b abcd") == "a [hidden] b [hidden]"


def test_a_secret_in_the_text_of_json() -> None:
    """A service's answer is shown as text where it is an error: escaped as JSON, in both ways."""
    scope = SecretScope()
    scope.hide_value('line\n"é"')
    assert scope.hide_text('{"a": "line\\n\\"é\\""}') == '{"a": "[hidden]"}'
    assert scope.hide_text('{"a": "line\\n\\"\\u00e9\\""}') == '{"a": "[hidden]"}'


def test_a_bare_address_is_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """The host of a service may be shown; the whole URL of a webhook may not."""
    scope = SecretScope()
    monkeypatch.setenv("BASE", "http://127.0.0.1:8080/")
    scope.resolve_address(SecretPart("BASE"))
    assert scope.hide("see http://127.0.0.1:8080/") == "see http://127.0.0.1:8080/"
    monkeypatch.setenv("BASE", "https://chat.example/hooks/T0/B0")
    scope.resolve_address(SecretPart("BASE"))
    assert scope.hide("see https://chat.example/hooks/T0/B0") == "see [hidden]"


def test_a_value_too_short_to_hide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hiding 'abc' everywhere would tear other words apart."""
    monkeypatch.setenv("SAMPLE_KEY", "abc")
    scope = SecretScope()
    scope.resolve(SecretPart("SAMPLE_KEY"))
    assert scope.hide("abcdef") == "abcdef"
