"""Does the page of placeholders list all that definitions, settings and models may write?

A module that reads placeholders has a pattern with a brace in it, and a row here: what the page
says of it. One that only looks at braces for another reason has an empty row. A new pattern
without a row fails, and so does a row that the page or the code has lost.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.meta.sources import PACKAGE, ROOT, tree

PAGE = ROOT / "docs" / "reference" / "placeholders.md"
ROOMS = ("catalog", "executors", "knowledge", "mcp_server", "session", "sources", "testing")
READERS = {
    "catalog/definition/group_definition.py": ("`{{tools}}`", "`{{if NAME}}`"),
    "catalog/definition/server_definition.py": ("`${env:NAME:-default}`", "`${NAME:-default}`"),
    "executors/commands/argument.py": ("`{files...}`", "`{any_case?--ignore-case}`"),
    "executors/mcp/server_secrets.py": ("`${file:/path}`",),
    "executors/sql/statement.py": ("`:name`", "`{order_by}`"),
    "executors/templates.py": ("`{name}`", "`{{name}}`", "`${env:NAME}`", "`${file:/path}`"),
    "executors/workflow/template.py": ("`${params.name}`", "`${steps.ID.output}`", "`$${`"),
    "knowledge/sql/connection/address.py": ("`${env:NAME}`", "URLs of [databases]"),
    "mcp_server/offers/resources.py": ("`server.add_resource`",),
    "session/prompt/prompt.py": ("`{{if NAME}}`",),
    "session/variables/references.py": (
        *("`$VAR_REF{{name}}`", "`$VAR_REF{{name:start:length}}`", "`$$VAR_REF{{`"),
    ),
    "sources/tool_view.py": ("`{{if NAME}}`",),
    "testing/cases.py": ("`${env:NAME}`",),
    # Whether an address is fixed, which text is written in quotes, what in JSON is an answer, and
    # which request is in JSON.
    "catalog/lint_rules/effects.py": (),
    "catalog/yaml/unparsed.py": (),
    "mcp_server/long_answers.py": (),
    "executors/mcp/given_up.py": (),
}


def test_every_placeholder_is_listed() -> None:
    """Each module that reads some is known, and the page says all that it reads."""
    assert {*modules_with_braces()} == {*READERS}
    page = PAGE.read_text(encoding="utf-8")
    missing = {
        (module, each) for module, said in READERS.items() for each in said if each not in page
    }
    assert missing == set()


def test_an_mcp_file_reads_what_the_page_says() -> None:
    """The folders that other clients name stand on the page, as the code replaces them."""
    page = PAGE.read_text(encoding="utf-8")
    sources = [
        path.read_text(encoding="utf-8") for path in PACKAGE.joinpath("catalog").rglob("*.py")
    ]
    for name in ("workspaceFolder", "userHome"):
        assert f"`${{{name}}}`" in page
        assert any(name in source for source in sources)


def modules_with_braces() -> Iterator[str]:
    """The modules whose patterns look for a brace."""
    for room in ROOMS:
        for file in PACKAGE.joinpath(room).rglob("*.py"):
            if any(re.search(r"\\{", pattern) for pattern in _patterns(tree(file))):
                yield file.relative_to(PACKAGE).as_posix()


def _patterns(module: ast.AST) -> Iterator[str]:
    for node in ast.walk(module):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "re.compile" and node.args:
            yield from (
                str(part.value)
                for part in ast.walk(node.args[0])
                if isinstance(part, ast.Constant) and isinstance(part.value, str | bytes)
            )
