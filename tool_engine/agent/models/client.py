"""What do all clients of providers share: settings, requests, errors, closing?"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import aclosing
from typing import Any, ClassVar, Final, Self
from urllib.parse import urlsplit

import msgspec

from tool_engine.agent.models.carried import CarriedProtocol, make_message
from tool_engine.agent.models.provider_errors import failure_of
from tool_engine.errors import ChatModelError, ConfigurationError
from tool_engine.interfaces import ToolCallingProtocol
from tool_engine.interfaces.protocol import is_for_text
from tool_engine.model.chat import ChatRequest
from tool_engine.model.checks.bounds import check_count, check_share
from tool_engine.model.checks.nearness import suggest_near
from tool_engine.model.foreign import ends_caller
from tool_engine.model.json.data import show_repr
from tool_engine.protocols.registry import PROTOCOLS, get_protocol
from tool_engine.redaction import redact_text, remember_secret

NO_KEY: Final = "none"
_SHORTEST_KEY: Final = 12
"""Characters of a key; a shorter, made-up one is not hidden in texts."""


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """How to reach a provider. None: the SDK's own default."""

    api_key: str | None = None
    base_url: str | None = None
    timeout: float | None = None
    max_retries: int | None = None

    def list_given(self) -> dict[str, Any]:
        """Return the settings that are given, under the names of the SDKs."""
        fields = {name: getattr(self, name) for name in self.__struct_fields__}
        return {name: value for name, value in fields.items() if value is not None}

    def __repr__(self) -> str:
        return f"Access(base_url={self.base_url!r}, timeout={self.timeout!r})"

    __rich_repr__ = show_repr


class ModelClient(ABC):
    """A `ChatModel` for one model of a provider, over the provider's SDK.

    Args:
        name: What the provider calls the model.
        api_key: The key; None: from the environment variable that the SDK reads.
        base_url: Another server of the same API; it needs no key unless it says so.
        timeout: Seconds for one request; None: the SDK's default.
        max_retries: How often the SDK retries after a temporary failure; None: its default.
        max_tokens: The most tokens of a reply, where the request sets no limit.
        protocol: None for the provider's own tools; `vcp`, `function_call` or the protocol object
            of a text protocol, for a model without; or an object of the provider's own protocol.
        client: An existing client of the SDK; it is not closed with the model.
        options: Extra fields of each request, under the provider's names: `temperature=0`.

    Raises:
        ConfigurationError: A setting is invalid, the provider knows no such option, or there is no
            key.
    """

    provider: ClassVar[str]
    """The provider's name in `chat_model("provider:model")`."""
    native: ClassVar[str]
    """The name of the provider's own protocol."""
    reserved: ClassVar[frozenset[str]] = frozenset()
    """Options that only the client itself may set."""
    key_variables: ClassVar[tuple[str, ...]] = ()
    """The environment variables in which the SDK looks for the key."""

    def __init__(
        self,
        name: str,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        timeout: float | None = None,
        max_retries: int | None = None,
        max_tokens: int | None = None,
        protocol: str | ToolCallingProtocol | None = None,
        client: Any = None,
        **options: Any,
    ) -> None:
        self._name = _checked_name(name)
        _check_numbers(timeout, max_retries, max_tokens)
        _check_url(base_url)
        if client is None:
            self._check_keys(api_key)
        access = Access(
            api_key=api_key, base_url=base_url, timeout=timeout, max_retries=max_retries
        )
        if client is not None and access != Access():
            raise ConfigurationError(
                "client is a client of the SDK that has its own key, address, timeout and retries: "
                "set them there"
            )
        self.max_tokens = max_tokens
        self._protocol = self._choose_protocol(protocol)
        self._is_own = client is None
        self._options = self._checked_options(options)
        self._remember_keys(api_key)
        # Last, as nothing would close it if a later check failed.
        self._client = self._make_client(access) if client is None else client
        self._is_closed = False

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._name!r}, protocol={self._protocol.name!r})"

    @property
    def name(self) -> str:
        """The provider's name for the model."""
        return self._name

    @property
    def protocol(self) -> ToolCallingProtocol:
        """The protocol in which the model reads tools and calls them."""
        return self._protocol

    @property
    def has_native_tools(self) -> bool:
        """Return True if requests declare tools; False with a text protocol."""
        return not isinstance(self._protocol, CarriedProtocol)

    def user_message(self, text: str) -> Any:
        """Return a user's text as a message of the provider's form."""
        return self.say("user", text)

    def say(self, role: str, text: str) -> Any:
        """Return a provider's message; the role is `user` or `assistant`."""
        return make_message(self.native, role, text)

    async def reply(self, request: ChatRequest) -> AsyncGenerator[Any, None]:
        """Yield one reply as the SDK's objects: chunks, or one whole reply.

        Leaving it early, by `aclose` or by a cancellation, closes the connection.

        Raises:
            ChatModelError: The provider refused, could not be reached, broke off, or answered what
                cannot be read.
            ConfigurationError: The model is closed.
        """
        if self._is_closed:
            raise ConfigurationError(f"{self!r} is closed: make another one")
        is_empty = True
        try:
            async with aclosing(self.chunks(request)) as chunks:
                async for chunk in chunks:
                    is_empty = False
                    yield chunk
        except (ChatModelError, ConfigurationError):
            raise
        except BaseException as error:
            if ends_caller(error):
                raise
            raise failure_of(error, self._name, self.address) from error
        if is_empty:
            raise ChatModelError(
                f"{self._name}: {self.address} answered with an empty stream; a server that cannot "
                "stream is asked with is_streamed=False",
                is_transient=True,
            )

    async def close(self) -> None:
        """Close the connections; may be called again."""
        if not self._is_closed:
            self._is_closed = True
            if self._is_own:
                await self._close_client()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    @property
    def address(self) -> str:
        """The host that is asked, for messages."""
        parts = urlsplit(self._base_url())
        return parts.netloc.rpartition("@")[2] or self.provider

    @abstractmethod
    def chunks(self, request: ChatRequest) -> AsyncGenerator[Any, None]:
        """Yield one reply, with the errors of the SDK as they are."""

    @abstractmethod
    def _make_client(self, access: Access) -> Any:
        """Create the SDK's client."""

    async def _close_client(self) -> None:
        await self._client.close()

    @abstractmethod
    def _base_url(self) -> str:
        """The address to which the SDK's client sends requests."""

    @abstractmethod
    def _known_options(self) -> Iterable[str]:
        """The fields that the provider's request can hold."""

    def unreadable(self, answer: object) -> ChatModelError:
        """Return the error for an answer that is no reply."""
        said = answer if isinstance(answer, str) else type(answer).__name__
        return failure_of(ValueError(said), self._name, self.address)

    def _choose_protocol(self, protocol: str | ToolCallingProtocol | None) -> ToolCallingProtocol:
        found = get_protocol(protocol) if isinstance(protocol, str) else protocol
        if found is None:
            return get_protocol(self.native)
        if is_for_text(found):
            return CarriedProtocol(found, get_protocol(self.native))
        name = getattr(found, "name", None)
        if not isinstance(name, str) or (name != self.native and name in PROTOCOLS):
            raise ConfigurationError(
                f"{type(self).__name__} speaks {self.native!r}, or a text protocol such as 'vcp' "
                f"or 'function_call', got {name or found!r}"
            )
        return found

    def _checked_options(self, options: Mapping[str, Any]) -> dict[str, Any]:
        known = sorted({*self._known_options()} - self.reserved - {"self"})
        for option in options:
            if option in self.reserved:
                raise ConfigurationError(
                    f"{option!r} is set by {type(self).__name__} itself, for each request"
                )
            if option not in known:
                more = "; pass it in extra_body if the server does" if "extra_body" in known else ""
                raise ConfigurationError(
                    f"{type(self).__name__} knows no option {option!r}"
                    f"{suggest_near(option, known) or more}"
                )
        return dict(options)

    def _check_keys(self, api_key: object) -> None:
        """Refuse keys that no header can carry: the server would seem down."""
        if api_key is not None and not (isinstance(api_key, str) and api_key.strip()):
            raise ConfigurationError("api_key must be a text with a key in it, or be left out")
        keys = {"api_key": api_key}
        if api_key is None:
            keys = {name: os.environ.get(name) for name in self.key_variables}
        for place, key in keys.items():
            if isinstance(key, str) and not (
                key.isascii() and key.isprintable() and " " not in key
            ):
                raise ConfigurationError(
                    f"{place} holds a character that no key has, such as a space or the end of a "
                    "line: strip it"
                )

    def _remember_keys(self, api_key: str | None) -> None:
        keys = [api_key, *(os.environ.get(name) for name in self.key_variables)]
        for key in keys:
            if isinstance(key, str) and len(key) >= _SHORTEST_KEY:
                remember_secret(key)

    def _find_max_tokens(self, request: ChatRequest) -> int | None:
        return self.max_tokens if request.max_tokens is None else request.max_tokens

    def _find_tools(self, request: ChatRequest) -> Any:
        return request.tools if self.has_native_tools and request.tools else None


def _checked_name(name: object) -> str:
    if not isinstance(name, str) or not name.strip():
        raise ConfigurationError(f"a model has a name, as its provider calls it, got {name!r}")
    return name.strip()


def _check_numbers(timeout: float | None, max_retries: int | None, max_tokens: int | None) -> None:
    if timeout is not None:
        check_share("timeout", timeout)
    if max_retries is not None:
        check_count("max_retries", max_retries)
    if max_tokens is not None:
        check_count("max_tokens", max_tokens, minimum=1)


def _check_url(base_url: object) -> None:
    if base_url is None:
        return
    try:
        parts = urlsplit(base_url if isinstance(base_url, str) else "")
        is_url = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        # The SDK appends paths to the address, which would end up in the query.
        is_url = is_url and not (parts.query or parts.fragment)
    except ValueError:
        is_url = False
    if not is_url:
        raise ConfigurationError(
            "base_url must be an address such as http://127.0.0.1:8000/v1, got "
            f"{redact_text(repr(base_url))}"
        )
