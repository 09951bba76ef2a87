"""Does the search among damaged definitions find what is wrong, and nothing else?"""

from __future__ import annotations

import pytest

from tests.proof import definitions
from tests.properties.definition_mutants import SAMPLES
from tool_engine import DefinitionError


def test_right_answers_are_no_failures() -> None:
    """The loader as it is stands the search, which sees texts of both kinds."""
    search = definitions.Search(seed=3)
    for _ in range(150):
        search.step()
    assert search.failures == []
    assert search.counts["accepted"] > 0
    assert search.counts["refused"] > 0
    assert "mutants" in str(search)


async def test_a_wrong_answer_is_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A loader that raises another exception fails the proof, and the text is printed."""

    def broken(text: str) -> DefinitionError:
        raise KeyError(len(text))

    monkeypatch.setattr(definitions, "judge", broken)
    assert not await definitions.prove(seconds=5, seed=1)
    shown = capsys.readouterr().out
    assert "NOT all right" in shown
    assert "KeyError" in shown
    assert "The text:" in shown


def test_the_pool_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long it runs, the search remembers so many texts and no more."""
    monkeypatch.setattr(definitions, "POOL", len(SAMPLES) + 2)
    search = definitions.Search(seed=5)
    for _ in range(60):
        search.step()
    assert len(search._pool) == definitions.POOL
