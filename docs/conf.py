"""How does Sphinx build the documentation? Offline: nothing is fetched."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.util import logging

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.documents.pages import find_broken_links, find_long_lines  # noqa: E402 - see above

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))[
    "project"
]

project = "tool_engine"
author = "The tool_engine authors"
project_copyright = author
version = release = PROJECT["version"]

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]
root_doc = "index"

html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["pages.css"]
html_title = f"tool_engine {release}"
html_show_sphinx = False
html_copy_source = False

myst_enable_extensions = ["colon_fence", "deflist", "fieldlist"]
myst_heading_anchors = 3

autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autoclass_content = "both"
napoleon_numpy_docstring = False

logger = logging.getLogger(__name__)
LITERAL = re.compile(r"(?<![`:\w])`([^`]+)`(?!`)")


def adapt_docstring(
    _app: Sphinx,
    what: str,
    _name: str,
    _obj: object,
    _options: object,
    lines: list[str],
) -> None:
    """Turns docstrings' `literals` into reStructuredText's, before napoleon does."""
    lines[:] = LITERAL.sub(r"``\1``", "\n".join(lines)).split("\n")
    if what in {"attribute", "data", "property"}:
        # Napoleon takes what stands before a colon in the first line for the type of an
        # attribute; an empty comment has none.
        lines[:0] = ["..", ""]


def check_page(app: Sphinx, name: str, source: list[str]) -> None:
    """Warns of lines that a page has to scroll for; Sphinx looks at its links."""
    for line, reason in find_long_lines(source[0]):
        logger.warning(reason, location=(name, line))


def check_front_page(app: Sphinx) -> None:
    """Warns of the same in the README, and of its links, which Sphinx does not read."""
    page = ROOT / "README.md"
    found = [
        *find_long_lines(page.read_text(encoding="utf-8")),
        *find_broken_links(page),
    ]
    for line, reason in found:
        logger.warning(reason, location=f"{page}:{line}")


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("builder-inited", check_front_page)
    app.connect("source-read", check_page)
    app.connect("autodoc-process-docstring", adapt_docstring, priority=400)
