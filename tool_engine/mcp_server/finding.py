"""How does a client find and call a tool that the list does not show?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from tool_engine.catalog.loader import ToolConfigLoader
from tool_engine.executors.tool_search import SEARCH_TOOLS, ToolSearchExecutor, shown_here
from tool_engine.interfaces import SearchTools
from tool_engine.mcp_server.listing import BadCursorError, Listing, Page
from tool_engine.model.call import ToolExecutionContext, ToolExecutionResult
from tool_engine.model.outcome import ErrorType
from tool_engine.model.tool import Tool
from tool_engine.protocols.definition_formats import MCPDefinitions
from tool_engine.validation.validator import ToolParameterValidator

CALL_TOOL: Final = "call_tool"
_MOST_FOUND: Final = 20
_DEFINITIONS: Final[tuple[dict[str, Any], ...]] = (
    {
        "name": SEARCH_TOOLS,
        "description": (
            "Finds tools by what they do, in any language. Each tool that is found has its name, "
            f"its description and the JSON Schema of its arguments: call it with {CALL_TOOL}. Use "
            "it whenever no tool that you know fits the task, before you say that something cannot "
            "be done."
        ),
        "effect": "read",
        "parameters": [
            {
                "name": "query",
                "type": "string",
                "required": True,
                "description": "What the tool should do, in a few words",
                "validation": {"min_length": 1, "max_length": 1_000},
            },
            {
                "name": "limit",
                "type": "integer",
                "default": 5,
                "description": "The most tools to return",
                "validation": {"min": 1, "max": _MOST_FOUND},
            },
        ],
        "output": {
            "type": "object",
            "properties": {
                "tools": {
                    "type": "array",
                    "description": "The tools that fit, best first",
                    "items": {
                        "type": "object",
                        "properties": {
                            "name": "string",
                            "description": "string",
                            "parameters": "object",
                        },
                        "required": ["name", "description", "parameters"],
                    },
                },
                "hint": {"type": "string", "description": "What to try when nothing fits"},
            },
            "required": ["tools"],
        },
        "entry": {"type": "builtin", "handler": SEARCH_TOOLS},
    },
    {
        "name": CALL_TOOL,
        "description": f"Calls a tool that {SEARCH_TOOLS} has found.",
        "parameters": [
            {
                "name": "name",
                "type": "string",
                "required": True,
                "description": f"The tool's name, as {SEARCH_TOOLS} gives it",
                "validation": {"min_length": 1, "max_length": 128},
            },
            {
                "name": "arguments",
                "type": "object",
                "default": {},
                "description": "The tool's arguments, as its JSON Schema says",
            },
        ],
        "entry": {"type": "custom"},
    },
)


class Finder:
    """The two tools of a server that lists no others: one finds, one calls.

    Args:
        search_tools: Searches the catalog.
        listing: Which tools clients may find.
    """

    def __init__(self, search_tools: SearchTools, listing: Listing) -> None:
        self._listing = listing
        self._searcher = ToolSearchExecutor(search_tools)
        self._validator = ToolParameterValidator(strict=True)
        loader = ToolConfigLoader()
        self._tools = {each["name"]: loader.from_mapping(each) for each in _DEFINITIONS}
        self._page = Page(MCPDefinitions().definitions(self._tools.values()), None)

    def get(self, name: str) -> Tool | None:
        """Return one of the two tools; None: the name means another."""
        return self._tools.get(name)

    def read_page(self, cursor: str | None, *, is_modern: bool) -> Page:
        """Return the one page of the list; see `Listing.read_page`."""
        del is_modern
        if cursor is not None:
            raise BadCursorError(f"no page ended with the cursor {cursor[:80]!r}")
        return self._page

    def read_list(self) -> Page:
        """Return the whole list, which never changes."""
        return self._page

    @staticmethod
    def is_same_list(before: Page, now: Page) -> bool:
        """Return True if a client would read the same list then and now."""
        return before is now

    async def search(self, arguments: Mapping[str, Any] | None) -> ToolExecutionResult:
        """Return the tools that fit, as the result of `search_tools`.

        A look-up like the list: it takes no slot, and never waits behind calls.
        """
        checked = self.check(SEARCH_TOOLS, arguments)
        if isinstance(checked, ToolExecutionResult):
            return checked
        tool = self._tools[SEARCH_TOOLS]
        with show_listing(self._listing):
            found = await self._searcher.execute(tool, checked, ToolExecutionContext())
        return ToolExecutionResult(is_success=True, tool_name=SEARCH_TOOLS, output=found)

    def read_call(self, arguments: Mapping[str, Any] | None) -> FoundCall | ToolExecutionResult:
        """Return what `call_tool` is to call, or what is wrong with its arguments."""
        checked = self.check(CALL_TOOL, arguments)
        if isinstance(checked, ToolExecutionResult):
            return checked
        return FoundCall(checked["name"], checked["arguments"])

    def check(
        self, name: str, arguments: Mapping[str, Any] | None
    ) -> dict[str, Any] | ToolExecutionResult:
        """Return the arguments with defaults filled in, or the result that says what is wrong."""
        validated = self._validator.validate(self._tools[name], arguments)
        if validated.is_valid:
            return validated.validated_params
        return ToolExecutionResult(
            is_success=False,
            tool_name=name,
            error=f"invalid arguments: {'; '.join(each.message for each in validated.errors)}",
            error_type=ErrorType.VALIDATION_ERROR.value,
        )


class FoundCall(NamedTuple):
    name: str
    arguments: Mapping[str, Any]


def list_shown(listing: Listing) -> None:
    """Let searches find only the tools that clients see, from here on in this context."""
    shown_here.set(listing.show_tool)


@contextmanager
def show_listing(listing: Listing) -> Iterator[None]:
    """Let searches inside find only the tools that clients see."""
    before = shown_here.set(listing.show_tool)
    try:
        yield
    finally:
        shown_here.reset(before)
