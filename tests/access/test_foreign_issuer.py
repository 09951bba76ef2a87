"""Are the tokens of an identity provider that others have written taken, and no others?

`oidc-provider-mock` serves OpenID Connect Discovery, its keys, and a whole login; what signs its
tokens, and the forged ones here, is Authlib's joserfc, and not what verifies them.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import sys
import time
from base64 import b64encode, urlsafe_b64encode
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any
from urllib.parse import parse_qs, urlsplit

import aiohttp
import pytest
from aiohttp import web
from joserfc import jwk, jwt
from structlog.testing import capture_logs

from tests.access.conftest import answering
from tests.ports import free_port
from tests.server.conftest import served
from tool_engine import ConfigurationError, ToolEngine
from tool_engine.access import jwt_verifier
from tool_engine.access.jwt_verifier import JWTVerifier
from tool_engine.server import create_app

BOUND = 120.0
CLIENT = "tools"
RETURN = "http://127.0.0.1:1/back"


@asynccontextmanager
async def provider(port: int) -> AsyncIterator[str]:
    """Its process, with a new key; gives its address."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-W", "ignore", "-m", "oidc_provider_mock", "--port", str(port)),
        *("--user", "ann"),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    url = f"http://127.0.0.1:{port}"
    try:
        async with asyncio.timeout(BOUND), aiohttp.ClientSession() as http:
            while True:
                with suppress(aiohttp.ClientError):
                    async with http.get(f"{url}{jwt_verifier._DISCOVERY}") as answer:
                        assert (await answer.json())["issuer"] == url
                        break
                assert process.returncode is None
                await asyncio.sleep(0.05)
        yield url
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def log_in(url: str, client: str = CLIENT) -> str:
    """The ID token of a whole login: the authorization code flow."""
    asked = {"client_id": client, "redirect_uri": RETURN, "response_type": "code"}
    async with aiohttp.ClientSession() as http:
        async with http.post(
            f"{url}/oauth2/authorize",
            params={**asked, "scope": "openid"},
            data={"sub": "ann"},
            allow_redirects=False,
        ) as answer:
            assert answer.status == 302, await answer.text()
            (code,) = parse_qs(urlsplit(answer.headers["location"]).query)["code"]
        form = {"grant_type": "authorization_code", "code": code, "redirect_uri": RETURN}
        headers = {"authorization": f"Basic {b64encode(f'{client}:any'.encode()).decode()}"}
        async with http.post(f"{url}/oauth2/token", data=form, headers=headers) as answer:
            assert answer.status == 200, await answer.text()
            return str((await answer.json())["id_token"])


async def test_a_login(monkeypatch: pytest.MonkeyPatch, engine: ToolEngine) -> None:
    """Its tokens are taken by discovery alone; those of another audience, and of a new key, too."""
    port = free_port()
    verifier = JWTVerifier(issuer=f"http://127.0.0.1:{port}", audience=CLIENT)
    async with provider(port) as url:
        token, of_others = await log_in(url), await log_in(url, "others")
        found = await verifier.find_principal(token)
        assert found is not None
        assert (found.name, found.scopes) == ("ann", frozenset())
        assert await verifier.find_principal(of_others) is None
        head, body, mark = token.split(".")
        assert await verifier.find_principal(f"{head}.{body}.{mark[:-8]}AAAAAAAA") is None
        other = JWTVerifier(issuer=f"{url}/", audience=CLIENT)
        with capture_logs() as logs:
            assert await other.find_principal(token) is None
        assert "what it says of itself is of the issuer" in logs[-1]["error"]
        async with served(create_app(engine, auth=verifier)) as service:
            client = service.client(None)
            client.headers = {"authorization": f"Bearer {token}"}
            assert (await client.get("/v1/tools")).kind == "not-allowed"  # it has no scopes
            client.headers = {"authorization": f"Bearer {of_others}"}
            assert (await client.get("/v1/tools")).status == 401
    # While the issuer is away, what was read goes on; a new process has a new key.
    assert await verifier.find_principal(token) is not None
    async with provider(port) as url:
        monkeypatch.setattr(jwt_verifier, "_PAUSE", 0.0)
        monkeypatch.setattr(jwt_verifier, "_HOLDS", 0.0)
        new = await log_in(url)
        assert await verifier.find_principal(new) is not None
        assert await verifier.find_principal(token) is None


def issuer(answers: dict[str, Any]) -> AbstractAsyncContextManager[str]:
    """Serves JSON at paths; gives its address."""

    async def answer(request: web.Request) -> web.Response:
        return web.json_response(answers[request.path])

    return answering(answer)


def pack(said: dict[str, Any]) -> str:
    return urlsafe_b64encode(json.dumps(said).encode()).rstrip(b"=").decode()


def claims(url: str, **changed: Any) -> dict[str, Any]:
    said = {"iss": url, "aud": CLIENT, "sub": "ann", "exp": int(time.time()) + 300}
    return {name: each for name, each in {**said, **changed}.items() if each is not None}


@pytest.mark.filterwarnings("ignore::joserfc.errors.SecurityWarning")
async def test_tokens_of_another_library() -> None:
    """What it signs in each way is taken; what is old, of others, or signed with no key, is not."""
    keys: dict[str, Any] = {
        "RS256": jwk.RSAKey.generate_key(2048, {"kid": "RS256"}),
        "ES256": jwk.ECKey.generate_key("P-256", {"kid": "ES256"}),
        "EdDSA": jwk.OKPKey.generate_key("Ed25519", {"kid": "EdDSA"}),
    }
    public = jwk.KeySet([*keys.values()]).as_dict(private=False)
    answers: dict[str, Any] = {"/keys": public}
    async with issuer(answers) as url:
        answers[jwt_verifier._DISCOVERY] = {"issuer": url, "jwks_uri": f"{url}/keys"}
        verifier = JWTVerifier(issuer=url, audience=CLIENT)

        def sign(name: str, key: Any = None, kid: str | None = None, **changed: Any) -> str:
            head = {"alg": name, "kid": kid or name}
            said = claims(url, **changed)
            return jwt.encode(head, said, key or keys[name], algorithms=[name])

        for name in keys:
            found = await verifier.find_principal(sign(name, scope="call read"))
            assert found is not None
            assert found.scopes == {"call", "read"}
        now = int(time.time())
        # Its public key as the secret of another algorithm, and no key at all: by hand, since the
        # library signs so for none.
        body = sign("RS256").split(".")[1]
        confused, bare = (
            f"{pack({'alg': name, 'kid': 'RS256'})}.{body}" for name in ("HS256", "none")
        )
        mark = hmac.digest(keys["RS256"].as_pem(private=False), confused.encode(), "sha256")
        refused = [
            sign("RS256", exp=now - 120),
            sign("RS256", nbf=now + 120),
            sign("RS256", iss="https://evil.example"),
            sign("RS256", aud="others"),
            sign("RS256", aud=None),
            sign("RS256", exp=None),
            sign("RS256", sub=None),
            sign("ES256", kid="RS256"),
            sign("RS256", jwk.RSAKey.generate_key(2048)),
            f"{confused}.{urlsafe_b64encode(mark).rstrip(b'=').decode()}",
            f"{bare}.",
        ]
        assert [await verifier.find_principal(each) for each in refused] == [None] * len(refused)


@pytest.mark.parametrize(
    "said",
    [
        {"issuer": "https://evil.example", "jwks_uri": "{url}/keys"},
        {"jwks_uri": "{url}/keys"},
        {"issuer": "{url}"},
        {"issuer": "{url}", "jwks_uri": 7},
        {"issuer": "{url}", "jwks_uri": "http://keys.example/keys"},
        {"issuer": "{url}", "jwks_uri": "http://127.0.0.1:1/keys"},
        {"issuer": "{url}", "jwks_uri": "file:///etc/passwd"},
        [],
        "nix",
    ],
    ids=str,
)
async def test_what_an_issuer_may_not_say(said: Any) -> None:
    """It speaks for itself alone, and leads to no address that others could answer at."""
    key = jwk.RSAKey.generate_key(2048, {"kid": "k"})
    answers: dict[str, Any] = {"/keys": jwk.KeySet([key]).as_dict(private=False)}
    async with issuer(answers) as url:
        if isinstance(said, dict):
            said = {
                name: each.replace("{url}", url) if isinstance(each, str) else each
                for name, each in said.items()
            }
        answers[jwt_verifier._DISCOVERY] = said
        token = jwt.encode({"alg": "RS256", "kid": "k"}, claims(url), key)
        verifier = JWTVerifier(issuer=url, audience=CLIENT)
        with capture_logs() as logs:
            assert await verifier.find_principal(token) is None
        assert [each["event"] for each in logs] == ["keys_unread"]


def test_issuers_that_are_not_found() -> None:
    """Where it is no address, its keys have to be named."""
    with pytest.raises(ConfigurationError, match=r"is no https URL .*; give jwks"):
        JWTVerifier(issuer="login", audience=CLIENT)
    with pytest.raises(ConfigurationError, match="could be changed on their way"):
        JWTVerifier(issuer="http://login.example", audience=CLIENT)
