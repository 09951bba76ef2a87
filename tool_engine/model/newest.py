"""How are only the newest entries kept?"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import TypeVar

_Key = TypeVar("_Key", bound=Hashable)
_Value = TypeVar("_Value")


def keep_newest(kept: OrderedDict[_Key, _Value], key: _Key, value: _Value, most: int) -> None:
    """Put an entry last, and drop the first one of more than `most`.

    A plain dict finds its first entry ever more slowly: it steps over all that were removed.
    """
    kept[key] = value
    kept.move_to_end(key)
    if len(kept) > most:
        kept.popitem(last=False)
