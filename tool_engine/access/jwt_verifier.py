"""Who is behind a token that another server has signed?"""

from __future__ import annotations

import asyncio
import json
import re
import urllib.request
from collections.abc import Collection, Mapping
from pathlib import Path
from time import monotonic
from typing import Any, Final
from urllib.parse import urlsplit

from tool_engine.access.principal import SCOPES, Principal
from tool_engine.errors import ConfigurationError, MissingExtraError
from tool_engine.logger import get_logger
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
_LEEWAY: Final = 60.0
"""Seconds by which clocks may differ."""
_HOLDS: Final = 3600.0
"""Seconds after which keys are read again."""
_PAUSE: Final = 60.0
"""Seconds between two readings because of a key that is not known."""
_LONGEST: Final = 16_384
_MOST_BYTES: Final = 1 << 20
_TIMEOUT: Final = 10.0
_LOCAL: Final = ("127.0.0.1", "localhost", "::1")
_log: Final = get_logger(__name__)


class JWTVerifier:
    """Takes the JSON Web Tokens that an issuer has signed for this server.

    The `sub` of a token is its principal's name. Its scopes are those of `scope_claim`, a text or a
    list, of which `call`, `read`, `approve` and `operate` count.

    Args:
        issuer: The `iss` of its tokens.
        audience: The `aud` of tokens for this server.
        jwks: Its keys: a file, or a URL with https.
        scope_claim: Where a token has its scopes.
        algorithms: How tokens may be signed.
        tools: Patterns of the tools that its principals may use.

    Raises:
        ConfigurationError: An argument is not right.

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
        jwks: str,
        scope_claim: str = "scope",
        algorithms: Collection[str] = _ALGORITHMS,
        tools: Collection[str] = ("*",),
    ) -> None:
        texts = {"issuer": issuer, "audience": audience, "jwks": jwks, "scope_claim": scope_claim}
        for name, text in texts.items():
            if not isinstance(text, str) or not text.strip():
                raise ConfigurationError(f"{name} must be a text that is not empty, got {text!r}")
        for each in algorithms:
            if _SIGNED.fullmatch(each) is None:
                raise ConfigurationError(
                    f"{each!r} is no algorithm with a public key; write some of "
                    f"{', '.join(_ALGORITHMS)}"
                )
        self._issuer = issuer
        self._audience = audience
        self._source = jwks
        self._is_url = _check_source(jwks)
        self._claim = scope_claim
        self._algorithms = list(algorithms)
        self._tools = tuple(tools)
        self._keys: Mapping[str, Any] = {}
        self._read_at: float | None = None
        self._reading = asyncio.Lock()

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
        except (jwt.PyJWTError, ValueError, TypeError):
            return None
        name = claims["sub"]
        if not isinstance(name, str) or not name:
            return None
        return Principal(name, self._read_scopes(claims.get(self._claim)), self._tools)

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
            self._keys = await asyncio.to_thread(self._load_keys)
        except Exception as error:  # noqa: BLE001 - those read before go on
            _log.warning("keys_unread", source=self._source, error=str(error))
        # Not before: who comes meanwhile waits for them.
        self._read_at = monotonic()

    def _load_keys(self) -> dict[str, Any]:
        if self._is_url:
            request = urllib.request.Request(self._source, headers={"accept": "application/json"})  # noqa: S310 - https, or this machine
            with urllib.request.urlopen(request, timeout=_TIMEOUT) as answer:  # noqa: S310 - the operator's own
                text = answer.read(_MOST_BYTES)
        else:
            try:
                text = read_named(Path(self._source))
            except OSError as error:
                raise ConfigurationError(why_unread(error)) from error
        found = jwt.PyJWKSet.from_dict(json.loads(text))
        return {each.key_id or str(place): each.key for place, each in enumerate(found.keys)}


def _read_head(token: str) -> dict[str, Any]:
    if len(token) > _LONGEST:
        return {}
    try:
        return jwt.get_unverified_header(token)
    except jwt.PyJWTError:
        return {}


def _check_source(jwks: str) -> bool:
    """Return True for a URL.

    Raises:
        ConfigurationError: Others could change what it gives.
    """
    parts = urlsplit(jwks)
    if parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOCAL):
        return True
    if parts.scheme and "://" in jwks:
        raise ConfigurationError(
            f"keys from {jwks!r} could be changed on their way; give an https URL or a file"
        )
    return False
