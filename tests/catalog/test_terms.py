"""Two ways to write the same thing have terms in common."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tool_engine.catalog.search import Terms, stem_word


def terms(text: str) -> list[str]:
    return Terms().of(text)


@pytest.mark.parametrize(
    "written",
    ["get_weather", "getWeather", "GetWeather", "get-weather", "get.weather", "GET_WEATHER"],
)
def test_identifiers_are_split(written: str) -> None:
    """However an identifier is written, its words are found, and itself as one."""
    assert set(terms(written)) == {*terms("get"), *terms("weather"), *terms("getweather")}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("HTTPRequest", ["http", "request", "httprequest"]),
        ("URLs IDs APIs", ["url", "id", "api"]),
        ("OAuth2Token", ["o", "auth2", "token", "oauth2token"]),
        ("S3 base64", ["s3", "base64"]),
        ("e-mail", ["e", "mail", "email"]),
        ("naïve Café", ["naiv", "caf"]),
        ("ＡＰＩ", ["api"]),
        ("Straße STRASSE", ["stras", "stras"]),
        ("Поиск", ["поиск"]),
        ("the of and", []),
        ("", []),
        ("?!*:^()\"' AND\0OR", []),
    ],
)
def test_terms(text: str, found: list[str]) -> None:
    """Humps, accents, width and case make no difference; little words and signs are no terms."""
    assert terms(text) == found


def test_text_without_spaces() -> None:
    """Chinese, Japanese, Korean and Thai have a term for each two neighbours."""
    assert terms("查询天气，天气") == ["查询", "询天", "天气", "天气"]
    assert terms("用GitHub搜索") == ["用", "git", "hub", "搜索"]
    assert terms("図") == ["図"]
    assert terms("날씨") == ["날씨"]
    assert "อา" in terms("อากาศ")


def test_a_long_word_is_cut() -> None:
    """A word without end is one term of bounded length, and not joined again."""
    assert terms("x" * 1000) == ["x" * 63]
    assert [len(term) for term in terms("ab1" * 30 + "_" + "cd2" * 30)] == [64, 64]


@pytest.mark.parametrize(
    "family",
    [
        "translate translates translated translating translation translator translations",
        "calculate calculator calculation calculations",
        "currency currencies",
        "process processes processing",
        "address addresses",
        "cancel cancelled cancelling",
        "bill bills billing",
        "deploy deployment deploying",
        "pay payment payments",
        "branch branches",
        "box boxes",
        "try tries tried",
        "delete deletes deleted deleting deletion",
        "create creates created creating creation",
        "rate rates rated rating",
        "convert converter converts",
        "status status",
        "id ids",
    ],
)
def test_forms_of_a_word(family: str) -> None:
    """The forms of an English word have one stem."""
    assert len({stem_word(word) for word in family.split()}) == 1


@pytest.mark.parametrize("pair", ["news new", "file find", "data date", "send sent", "form format"])
def test_other_words_stay_apart(pair: str) -> None:
    """What only looks alike has a stem of its own."""
    one, other = pair.split()
    assert stem_word(one) != stem_word(other)


@given(st.text())
def test_any_text_has_terms(text: str) -> None:
    """No text is an error, no term is empty or without end, and the same text has the same."""
    known = Terms()
    found = known.of(text)
    assert found == known.of(text) == terms(text)
    assert all(0 < len(term) <= 200 for term in found)


@given(st.from_regex(r"[a-z]{1,12}", fullmatch=True))
def test_a_stem_is_never_empty(word: str) -> None:
    """Whatever ends like a form keeps what it begins with."""
    assert stem_word(word)
    assert stem_word(word)[0] == word[0]
