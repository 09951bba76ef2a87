"""Would a cut of a text leave half of a secret, which nothing recognises any more?"""

from __future__ import annotations

import pytest

from tool_engine.redaction import OwnSecrets, redact_text
from tool_engine.redaction.text import place_to_cut, splits_secret

TOKEN = "sk-" + "Ab1" * 20
TEXT = f"the key is {TOKEN} and no other"


@pytest.mark.parametrize("place", range(1, len(TEXT)))
def test_a_cut_within_a_token_is_seen(place: int) -> None:
    """A cut within what is hidden is told; the cuts on both sides of it are not."""
    start = TEXT.index(TOKEN)
    assert splits_secret(TEXT, place) is (start < place < start + len(TOKEN))


def test_a_text_without_secrets_is_searched_once_for_a_cut() -> None:
    """Budget: a cut costs one look at what is near it, and three only where something is hidden."""
    searched: list[int] = []

    def hide(text: str) -> str:
        searched.append(len(text))
        return redact_text(text)

    text = "A line of a page, and no more.\n" * 1_000
    assert not splits_secret(text, 15_000, hide)
    assert (place_to_cut(text, 15_000, hide=hide), searched) == (15_000, [8_192] * 2)
    searched.clear()
    assert splits_secret(TEXT, len(TEXT) // 2, hide)
    assert len(searched) == 3


def test_a_value_that_is_secret_here() -> None:
    """Secrets that only the caller knows, such as arguments, count as well."""
    text = "so the word is swordfish, he said"
    start = text.index("swordfish")
    own = OwnSecrets({"word": "swordfish", "s": "s"}, ["word", "s"])
    found = [place for place in range(len(text)) if splits_secret(text, place, own.text)]
    assert found == list(range(start + 1, start + len("swordfish")))
    spelled = text.replace("swordfish", "sword&#102;ish")
    assert splits_secret(spelled, start + 8, own.text)


def test_the_nearest_place_for_a_cut() -> None:
    """A cut moves away from a secret, to the side that is asked for, and never beyond the text."""
    start, end = TEXT.index(TOKEN), TEXT.index(TOKEN) + len(TOKEN)
    assert (place_to_cut(TEXT, 3), place_to_cut(TEXT, start)) == (3, start)
    assert place_to_cut(TEXT, end - 1) <= start
    assert end <= place_to_cut(TEXT, start + 1, 1) <= len(TEXT)
    assert (place_to_cut(TOKEN, 5), place_to_cut(TOKEN, 5, 1)) == (0, len(TOKEN))
    assert (place_to_cut(TEXT, -5), place_to_cut(TEXT, 10_000)) == (0, len(TEXT))
