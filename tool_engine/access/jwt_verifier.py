"""Who is behind a token that another server has signed?"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from time import monotonic
from typing import Any, Final
from urllib.parse import urlsplit

import aiohttp

from tool_engine.access.hosts import LOOPBACK
from tool_engine.access.principal import (
    SCOPES,
    Principal,
    is_name,
    read_patterns,
    read_priority,
)
from tool_engine.access.texts import require_texts
from tool_engine.errors import ConfigurationError, MissingExtraError
from tool_engine.logger import get_logger
from tool_engine.model.settings.concurrency import DEFAULT_PRIORITY
from tool_engine.named_file import read_named, why_unread

try:
    import jwt
except ImportError as error:
    raise MissingExtraError(
        f"PyJWT is not installed ({error.name}): pip install 'tool-engine[server]'"
    ) from error

_ALGORITHMS: Final = ("RS256", "ES256", "EdDSA")
_SIGNED: Final = re.compile(r"(RS|ES|PS)(256|384|512)|EdDSA")
"""Algorithms whose keys verify, and cannot sign."""
_TIMES: Final = (int, float, type(None))
_LEAST_BITS: Final = 2_048
"""Of the modulus of an RSA key: RFC 7518, section 3.3."""
_LEEWAY: Final = 60.0
"""Seconds by which clocks may differ."""
_HOLDS: Final = 3600.0
"""Seconds after which keys are read again."""
_PAUSE: Final = 60.0
"""Seconds between two readings because of a key that is not known."""
_LONGEST: Final = 16_384
_MOST_BYTES: Final = 1 << 20
_DISCOVERY: Final = "/.well-known/openid-configuration"
"""Where an issuer says what it has, below its own address."""
_TIMEOUT: Final = 10.0
"""Seconds within which the keys must have come, all of them."""
_log: Final = get_logger(__name__)


class JWTVerifier:
    """Takes the JSON Web Tokens that an issuer has signed for this server.

    The `sub` of a token is its principal's name. Its scopes are those of `scope_claim`, a text or a
    list, of which `call`, `read`, `approve` and `operate` count.

    Args:
        issuer: The `iss` of its tokens.
        audience: The `aud` of tokens for this server.
        jwks: Its keys: a file, or a URL with https. None: the issuer itself says where they are,
            as OpenID Connect Discovery has it.
        scope_claim: Where a token has its scopes.
        algorithms: How tokens may be signed.
        tools: Patterns of the tools that its principals may use.
        priority: The most urgent priority that their calls may ask for.

    Raises:
        ConfigurationError: An argument is not right, or the file has no keys.

    Example:
        >>> JWTVerifier(
        ...     issuer="https://login.example", audience="tools", jwks="https://login.example/jwks"
        ... )
    """

    def __init__(
        self,
        *,
        issuer: str,
        audience: str,
        jwks: str | None = None,
        scope_claim: str = "scope",
        algorithms: Collection[str] = _ALGORITHMS,
        tools: Collection[str] = ("*",),
        priority: int = DEFAULT_PRIORITY,
    ) -> None:
        self._is_found = jwks is None
        jwks = f"{issuer}".rstrip("/") + _DISCOVERY if jwks is None else jwks
        texts = {"issuer": issuer, "audience": audience, "jwks": jwks, "scope_claim": scope_claim}
        for name, text in texts.items():
            if not isinstance(text, str) or not text.strip():
                raise ConfigurationError(f"{name} must be a text that is not empty, got {text!r}")
        listed = require_texts("algorithms", algorithms)
        if not listed or not all(_SIGNED.fullmatch(each) for each in listed):
            raise ConfigurationError(
                f"algorithms must be some with a public key, got {listed!r:.80}; write some of "
                f"{', '.join(_ALGORITHMS)}"
            )
        self._issuer = issuer
        self._audience = audience
        self._source = jwks
        self._is_url = _is_safe_url(jwks)
        if self._is_found and not self._is_url:
            raise ConfigurationError(
                f"the issuer {issuer!r:.200} is no https URL that could say where its keys are; "
                "give jwks"
            )
        self._claim = scope_claim
        self._algorithms = listed
        self._tools = read_patterns(require_texts("tools", tools), "JWTVerifier")
        self._priority = read_priority(priority, "JWTVerifier")
        self._keys: Mapping[str, Any] = {}
        self._read_at: float | None = None
        self._reading = asyncio.Lock()
        if not self._is_url:
            self._keys, self._read_at = self._read_file(), monotonic()

    def __repr__(self) -> str:
        return f"JWTVerifier(issuer={self._issuer!r}, audience={self._audience!r})"

    async def find_principal(self, token: str) -> Principal | None:
        """Return who a token is of; None: it is not taken."""
        head = _read_head(token)
        if head.get("alg") not in self._algorithms:
            return None
        key = await self._find_key(head.get("kid"))
        if key is None:
            return None
        try:
            claims = jwt.decode(
                token,
                key=key,
                algorithms=[head["alg"]],
                audience=self._audience,
                issuer=self._issuer,
                leeway=_LEEWAY,
                options={"require": ["exp", "iss", "aud", "sub"]},
            )
        except (jwt.PyJWTError, ValueError, TypeError, OverflowError):
            return None
        name, times = claims["sub"], [claims.get(each) for each in ("exp", "nbf", "iat")]
        # RFC 7519 has numbers there, and PyJWT takes texts of them.
        if any(type(each) not in _TIMES for each in times) or not is_name(name):
            return None
        scopes = self._read_scopes(claims.get(self._claim))
        return Principal(name, scopes, self._tools, self._priority)

    def _read_scopes(self, said: Any) -> frozenset[str]:
        words = said.split() if isinstance(said, str) else said if isinstance(said, list) else []
        return frozenset(each for each in SCOPES if each in words)

    async def _find_key(self, key_id: Any) -> Any:
        """Return the key of an id; one without an id is the only one that there is."""
        now = monotonic()
        age = None if self._read_at is None else now - self._read_at
        is_known = self._choose_key(key_id) is not None
        if age is None or age > _HOLDS or (not is_known and age > _PAUSE):
            async with self._reading:
                # Another one may have read them meanwhile.
                if self._read_at is None or self._read_at < now:
                    await self._read_keys()
        return self._choose_key(key_id)

    def _choose_key(self, key_id: Any) -> Any:
        if isinstance(key_id, str):
            return self._keys.get(key_id)
        return next(iter(self._keys.values())) if len(self._keys) == 1 else None

    async def _read_keys(self) -> None:
        try:
            if self._is_url:
                self._keys = await self._find_keys()
            else:
                self._keys = await asyncio.to_thread(self._read_file)
        except Exception as error:  # noqa: BLE001 - those read before go on
            _log.warning("keys_unread", source=self._source, error=str(error) or repr(error))
        # Not before: who comes meanwhile waits for them.
        self._read_at = monotonic()

    def _read_file(self) -> dict[str, Any]:
        try:
            return _read_set(read_named(Path(self._source)), self._source)
        except OSError as error:
            raise self._explain_unread(why_unread(error)) from error
        except (ValueError, jwt.PyJWTError) as error:
            raise self._explain_unread(str(error)) from error

    def _explain_unread(self, why: str) -> ConfigurationError:
        return ConfigurationError(
            f"no keys can be read from {self._source!r}: {why}; give a JSON Web Key Set"
        )

    async def _find_keys(self) -> dict[str, Any]:
        source = self._source
        if self._is_found:
            source = _read_address(await _fetch_bytes(source), self._issuer)
        return _read_set(await _fetch_bytes(source), source)


async def _fetch_bytes(source: str) -> bytes:
    limit = aiohttp.ClientTimeout(total=_TIMEOUT)
    async with (
        aiohttp.ClientSession(timeout=limit, trust_env=True) as session,
        # Where a redirect leads to, the operator has not said.
        session.get(source, allow_redirects=False) as answer,
    ):
        if answer.status != 200:
            raise ConfigurationError(f"the answer has the status {answer.status}")
        text = bytearray()
        async for part in answer.content.iter_any():
            text += part
            if len(text) > _MOST_BYTES:
                raise ConfigurationError(f"they have more than {_MOST_BYTES >> 20} MiB")
        return bytes(text)


def _read_set(text: str | bytes, source: str) -> dict[str, Any]:
    """Return the keys of a JSON Web Key Set by their ids; weak ones are left out.

    Raises:
        ValueError: It is no JSON object, or has weak keys alone.
        jwt.PyJWTError: It has no keys.
    """
    said = json.loads(text)
    if not isinstance(said, dict):
        raise ValueError("it is no JSON object")
    found = jwt.PyJWKSet.from_dict(said)
    keys = {each.key_id or str(place): each.key for place, each in enumerate(found.keys)}
    reasons = {key_id: _explain_weak(key_id, key) for key_id, key in keys.items()}
    for reason in filter(None, reasons.values()):
        _log.warning("key_refused", source=source, error=reason)
    strong = {key_id: key for key_id, key in keys.items() if reasons[key_id] is None}
    if keys and not strong:
        raise ValueError("; ".join(filter(None, reasons.values())))
    return strong


def _read_address(text: bytes, issuer: str) -> str:
    """Return where an issuer's keys are.

    Raises:
        ValueError: It says so of another one, or says it in no safe way.
    """
    said = json.loads(text)
    found = said.get("issuer") if isinstance(said, dict) else None
    if found != issuer:
        # OpenID Connect Discovery (4.3): exactly the same, or it speaks for another one.
        raise ValueError(f"what it says of itself is of the issuer {found!r:.200}")
    address = said.get("jwks_uri")
    # One that is elsewhere has this machine ask nothing of its own services.
    is_near = isinstance(address, str) and urlsplit(address).netloc == urlsplit(issuer).netloc
    if not isinstance(address, str) or not (is_near or address.startswith("https://")):
        raise ValueError(f"its jwks_uri must be an https URL, got {address!r:.200}")
    return address


def _explain_weak(key_id: str, key: Any) -> str | None:
    """Return why a key verifies nothing; None: it does."""
    bits = getattr(key, "key_size", None) if hasattr(key, "public_numbers") else None
    # Of the kinds that there are, those of RSA alone have an exponent.
    if bits is None or not hasattr(key.public_numbers(), "e") or bits >= _LEAST_BITS:
        return None
    return (
        f"the RSA key {key_id[:80]!r} has {bits} bits, which can be broken; have the issuer make "
        f"one of {_LEAST_BITS} or more"
    )


def _read_head(token: str) -> dict[str, Any]:
    if len(token) > _LONGEST:
        return {}
    try:
        return jwt.get_unverified_header(token)
    except (jwt.PyJWTError, ValueError, RecursionError):
        return {}


def _is_safe_url(jwks: str) -> bool:
    """Return True for a URL.

    Raises:
        ConfigurationError: Others could change what it gives.
    """
    parts = urlsplit(jwks)
    if parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in LOOPBACK):
        return True
    if parts.scheme and "://" in jwks:
        raise ConfigurationError(
            f"keys from {jwks!r} could be changed on their way; give an https URL or a file"
        )
    return False
