"""Which resources does a client find, and what is in them?"""

from __future__ import annotations

import base64
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from tool_engine.errors import ConfigurationError
from tool_engine.mcp_server.offers.offered import check_function
from tool_engine.model.checks.nearness import suggest_near

_VARIABLE: Final = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")
_STEP: Final = re.compile("[/?#]")
_URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:\S+")
_LONGEST_URI: Final = 4_096
_OWN: Final = "tool-engine:"
"""What stands there is the server's own, such as whole results: another could pose as one."""


class Resource(NamedTuple):
    name: str
    description: str
    mime_type: str | None
    read: Callable[..., Any]
    """Returns the text or the bytes; of a template, it takes the variables as keywords."""
    values: Mapping[str, Sequence[str]] = {}
    """What a client may offer for a variable while a person types."""


class Resources:
    """The resources of a server, and the templates of their addresses."""

    def __init__(self) -> None:
        self._fixed: dict[str, Resource] = {}
        self._templates: dict[str, tuple[re.Pattern[str], Resource]] = {}

    def add(self, uri: str, resource: Resource) -> None:
        """Add a resource; one whose address has `{variables}` stands for many.

        Raises:
            ConfigurationError: The address is none, is there already or is the server's own, or
                the function takes others than its variables.
        """
        if not isinstance(uri, str) or _URI.fullmatch(uri) is None:
            raise ConfigurationError(
                f"a resource needs a URI, such as docs://guide or docs://{{name}}, got {uri!r:.80}"
            )
        if uri.lower().startswith(_OWN):
            raise ConfigurationError(
                f"{_OWN} is for the results of calls, got {uri!r:.80}; give the resource an "
                "address of your own, such as docs://guide"
            )
        if uri in self._fixed or uri in self._templates:
            raise ConfigurationError(f"there is a resource {uri!r} already; give it another URI")
        variables = _VARIABLE.findall(uri)
        check_function(f"the resource {uri!r}", resource.read, variables, ())
        for name in resource.values:
            if name not in variables:
                hint = suggest_near(name, variables)
                raise ConfigurationError(f"the resource {uri!r} has no variable {name!r}{hint}")
        if not variables:
            self._fixed[uri] = resource
        else:
            self._templates[uri] = (_compile_template(uri), resource)

    def list_addresses(self) -> list[str]:
        return sorted({*self._fixed, *self._templates})

    def find_values(self, uri: str) -> dict[str, Sequence[str]] | None:
        """Return what may stand for each variable of an address; None: there is no such one."""
        if uri in self._fixed:
            return {}
        if uri not in self._templates:
            return None
        values = self._templates[uri][1].values
        return {name: values.get(name, ()) for name in _VARIABLE.findall(uri)}

    def describe(self) -> list[dict[str, Any]]:
        return [_describe_resource("uri", uri, each) for uri, each in sorted(self._fixed.items())]

    def describe_templates(self) -> list[dict[str, Any]]:
        return [
            _describe_resource("uriTemplate", uri, each)
            for uri, (_, each) in sorted(self._templates.items())
        ]

    async def read(self, uri: str) -> dict[str, Any] | None:
        """Return a resource as it stands on the wire; None: there is none."""
        found = self._find_resource(uri)
        if found is None:
            return None
        resource, variables = found
        content = resource.read(**variables)
        if inspect.isawaitable(content):
            content = await content
        if content is None:
            return None
        written: dict[str, Any] = {"uri": uri}
        if resource.mime_type is not None:
            written["mimeType"] = resource.mime_type
        if isinstance(content, bytes):
            return {**written, "blob": base64.b64encode(content).decode()}
        if isinstance(content, str):
            return {**written, "text": content}
        raise ConfigurationError(
            f"the resource {uri[:80]!r} must be a text or bytes, got {type(content).__name__}"
        )

    def _find_resource(self, uri: str) -> tuple[Resource, Mapping[str, str]] | None:
        if uri in self._fixed:
            return self._fixed[uri], {}
        if len(uri) > _LONGEST_URI:
            return None
        for pattern, resource in self._templates.values():
            found = pattern.fullmatch(uri)
            if found is not None and not any(_leads_out(each) for each in found.groups()):
                return resource, found.groupdict()
        return None


def _leads_out(step: str) -> bool:
    """Return True for a step that leads out of a path, for a function that opens files."""
    return step.lower().replace("%2e", ".") in (".", "..")


def _compile_template(uri: str) -> re.Pattern[str]:
    first, *rest = _VARIABLE.split(uri)
    names, texts = rest[::2], rest[1::2]
    if len(set(names)) < len(names):
        raise ConfigurationError(f"a variable of {uri!r} stands there twice; name one otherwise")
    if not all(texts[:-1]):
        raise ConfigurationError(
            f"two variables of {uri!r} run into one another; put a letter between them"
        )
    pattern = re.escape(first)
    for number, (name, text) in enumerate(zip(names, texts, strict=True), 1):
        # A variable is one step of a path, so that none reaches further than its template says.
        if number == len(names) or _STEP.search(text):
            pattern += f"(?P<{name}>[^/?#]+){re.escape(text)}"
        else:
            # It ends where the text behind it first stands: to try each place of each variable
            # with those of all others would take an address of some thousand letters for hours.
            pattern += f"(?>(?P<{name}>[^/?#]+?){re.escape(text)})"
    return re.compile(pattern)


def _describe_resource(key: str, uri: str, resource: Resource) -> dict[str, Any]:
    described: dict[str, Any] = {key: uri, "name": resource.name}
    if resource.description:
        described["description"] = resource.description
    if resource.mime_type is not None:
        described["mimeType"] = resource.mime_type
    return described
