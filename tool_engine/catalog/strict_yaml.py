"""How does a program read YAML as strictly as definitions are read?"""

from __future__ import annotations

from typing import Any

from tool_engine.catalog.yaml.strict_yaml import load_documents


def load_all(text: str | bytes, source: str, *, allow_aliases: bool = False) -> list[Any]:
    """Return the value of every document in `text`; see `load_documents`.

    Example:
        >>> load_all("answer: no", "example.yaml")
        [{'answer': 'no'}]
    """
    documents = load_documents(text, source, allow_aliases=allow_aliases)
    return [document.value for document in documents]
