"""How much of a tool's output do its caller and a model see?"""

from __future__ import annotations

from enum import Enum
from typing import Final

import msgspec

from tool_engine.errors import ConfigurationError
from tool_engine.model.checks.bounds import check_choice, check_count
from tool_engine.model.checks.known_fields import KnownFields
from tool_engine.model.json.data import Data
from tool_engine.model.settings.concurrency import LARGEST

CUT_KEY: Final = "_cut"
"""The key of an output under which a note says what was cut and how to get the rest."""
LEAST_CHARS: Final = 100
"""The smallest `max_chars`: a note that says how to get the rest must fit into it."""

MOST_KEPT: Final = 4_194_304
"""Bytes up to which a record keeps the whole of an output that was cut; of a larger one, the
beginning."""


class CutStrategy(str, Enum):
    """Which part remains of a text or a list that is too long."""

    HEAD = "head"
    """The beginning."""
    TAIL = "tail"
    """The end."""
    HEAD_TAIL = "head_tail"
    """The beginning and the end."""


class ResultShow(str, Enum):
    """How much of a result the model of a session reads at once."""

    FULL = "full"
    """Its text, as far as the limits go."""
    SUMMARY = "summary"
    """Its name, kind and size, and nothing of its content, which stays unread in its variable."""
    NONE = "none"
    """That the call has ended, and nothing else."""


class ResultLimits(msgspec.Struct, Data, frozen=True, gc=False, metaclass=KnownFields):
    """How much of a tool's output is shown: a definition's `result`. The record keeps all."""

    max_chars: int | None = None
    """The most characters of the text that a model reads (`to_text(output)`), the note included."""
    max_items: int | None = None
    """The most entries of each list in the output, wherever it stands."""
    strategy: CutStrategy = CutStrategy.HEAD_TAIL
    """Which part remains of a text or a list that is too long; a mapping keeps its first keys."""
    select: str | None = None
    """A JMESPath expression that picks the output from what the tool returned."""
    limit: int | None = None
    """The most characters of a result that the model of a session reads; 0 or -1: all of them;
    None: what the session says. The output itself stays whole. S7."""
    show: ResultShow | None = None
    """How much of a result the model of a session reads at once; None: what the session says."""

    @property
    def shapes_output(self) -> bool:
        """True if they change what a call returns, not only what a session's model reads."""
        return not (self.max_chars is None and self.max_items is None and self.select is None)

    @property
    def may_cut(self) -> bool:
        """True if a part may be left out, so that the rest is not as the definition declares."""
        return not (self.max_chars is None and self.max_items is None)

    def __post_init__(self) -> None:
        if self.max_chars is not None:
            check_count("max_chars", self.max_chars, minimum=LEAST_CHARS, maximum=LARGEST)
        if self.max_items is not None:
            check_count("max_items", self.max_items, minimum=1, maximum=LARGEST)
        if self.limit is not None:
            check_count("limit", self.limit, minimum=-1, maximum=LARGEST)
        if self.show is not None:
            check_choice("show", self.show, [each.value for each in ResultShow])
            msgspec.structs.force_setattr(self, "show", ResultShow(self.show))
        check_choice("strategy", self.strategy, [each.value for each in CutStrategy])
        msgspec.structs.force_setattr(self, "strategy", CutStrategy(self.strategy))
        if self.select is not None and not (isinstance(self.select, str) and self.select.strip()):
            raise ConfigurationError(f"select must be a JMESPath expression, got {self.select!r}")
