"""How does Sphinx build the documentation? Offline: no page and no inventory is fetched."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

from sphinx.application import Sphinx

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

project = "tool_engine"
author = "The tool_engine authors"
project_copyright = author
version = release = PROJECT["version"]

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]
root_doc = "index"

html_theme = "furo"
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

LITERAL = re.compile(r"(?<![`:\w])`([^`]+)`(?!`)")


def adapt_docstring(
    _app: Sphinx, what: str, _name: str, _obj: object, _options: object, lines: list[str]
) -> None:
    """Turns the docstrings' `literals` into reStructuredText's, before napoleon reads them."""
    lines[:] = LITERAL.sub(r"``\1``", "\n".join(lines)).split("\n")
    if what in {"attribute", "data", "property"}:
        # Napoleon takes what stands before a colon in the first line for the attribute's type;
        # an empty comment has none.
        lines[:0] = ["..", ""]


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("autodoc-process-docstring", adapt_docstring, priority=400)
