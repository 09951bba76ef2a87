"""What does a task ask its client, and what came back?

The client reads the questions with `tasks/get` and answers with `tasks/update`, in any number of
requests; the tool waits meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

_Reader = Callable[[str, Any, Any], dict[str, Any]]
"""Takes a key, a question and an answer; returns the answer, or raises what is wrong with it."""


class _Open(NamedTuple):
    question: Any
    answer: asyncio.Future[dict[str, Any]]


class TaskQuestions:
    """The questions of one task that wait for an answer.

    Args:
        read_answer: Checks what a client sends.
    """

    def __init__(self, read_answer: _Reader) -> None:
        self._read_answer = read_answer
        self._open: dict[str, _Open] = {}
        self._used: set[str] = set()

    @property
    def open(self) -> dict[str, Any]:
        """What waits for an answer, by the keys that the client knows."""
        return {key: each.question for key, each in self._open.items()}

    async def ask(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Wait for the answers to some questions, and return each under its key."""
        loop = asyncio.get_running_loop()
        keys = {self._make_key(key): key for key in asked}
        mine = {key: _Open(asked[own], loop.create_future()) for key, own in keys.items()}
        self._open |= mine
        try:
            return {keys[key]: await each.answer for key, each in mine.items()}
        finally:
            for key in mine:
                self._open.pop(key, None)

    def take_answers(self, answers: Mapping[str, Any]) -> None:
        """Take what a client sends; what it was not asked, or has answered, is left out.

        Raises:
            MCPError: An answer is none to its question; then none of them is taken.
        """
        read = {
            key: self._read_answer(key, self._open[key].question, answer)
            for key, answer in answers.items()
            if key in self._open
        }
        for key, answer in read.items():
            self._open.pop(key).answer.set_result(answer)

    def _make_key(self, key: str) -> str:
        """Return a key that the task has not used: an answer is to one question, for ever."""
        made, number = key, 1
        while made in self._used:
            number += 1
            made = f"{key}-{number}"
        self._used.add(made)
        return made
