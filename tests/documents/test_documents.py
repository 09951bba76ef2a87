"""Do the examples of README.md and of docs/ work?"""

from __future__ import annotations

from pathlib import Path

import pytest
from blockbuster import BlockBuster

from tests.documents.examples import DocumentRun, documents

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("path", documents(ROOT), ids=lambda path: str(path.relative_to(ROOT)))
def test_document(path: Path, tmp_path: Path, blockbuster: BlockBuster) -> None:
    """Every example of the document runs, in order, and does what the document says."""
    blockbuster.activate()
    try:
        DocumentRun(path, ROOT, tmp_path).run()
    finally:
        blockbuster.deactivate()
