"""Which tokens that an issuer has signed are taken?"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import jwt
import pytest
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
)
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm
from structlog.testing import capture_logs

from tests.access.conftest import answering
from tool_engine import ConfigurationError
from tool_engine.access.jwt_verifier import JWTVerifier

RSA = rsa.generate_private_key(65537, 2048)
EC = ec.generate_private_key(ec.SECP256R1())
ED = ed25519.Ed25519PrivateKey.generate()
OTHER = rsa.generate_private_key(65537, 2048)


def key_set(**more: Any) -> dict[str, Any]:
    found = [
        {**RSAAlgorithm.to_jwk(RSA.public_key(), as_dict=True), "kid": "rsa", "alg": "RS256"},
        {**ECAlgorithm.to_jwk(EC.public_key(), as_dict=True), "kid": "ec", "alg": "ES256"},
        {**OKPAlgorithm.to_jwk(ED.public_key(), as_dict=True), "kid": "ed", "alg": "EdDSA"},
    ]
    return {"keys": [*found, *more.values()]}


def claims(**changed: Any) -> dict[str, Any]:
    now = time.time()
    said = {
        "iss": "https://login.example",
        "aud": "tools",
        "sub": "ann",
        "exp": now + 300,
        "scope": "call read admin",
    }
    return {name: each for name, each in {**said, **changed}.items() if each is not None}


def sign(key: Any = RSA, algorithm: str = "RS256", kid: str | None = "rsa", **changed: Any) -> str:
    headers = None if kid is None else {"kid": kid}
    return jwt.encode(claims(**changed), key, algorithm, headers)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "keys.json"
    path.write_text(json.dumps(key_set()))
    return path


@pytest.fixture
def verifier(path: Path) -> JWTVerifier:
    return JWTVerifier(issuer="https://login.example", audience="tools", jwks=str(path))


@pytest.mark.parametrize(
    ("key", "algorithm", "kid"), [(RSA, "RS256", "rsa"), (EC, "ES256", "ec"), (ED, "EdDSA", "ed")]
)
async def test_what_is_taken(verifier: JWTVerifier, key: Any, algorithm: str, kid: str) -> None:
    """A token of each kind of key; of its scopes those that there are here."""
    found = await verifier.find_principal(sign(key, algorithm, kid))
    assert found is not None
    assert (found.name, sorted(found.scopes)) == ("ann", ["call", "read"])
    listed = await verifier.find_principal(sign(key, algorithm, kid, scope=["operate", 7]))
    assert listed is not None
    assert listed.scopes == {"operate"}


@pytest.mark.parametrize(
    "changed",
    [
        {"iss": "https://evil.example"},
        {"iss": None},
        {"aud": "other"},
        {"aud": None},
        {"aud": ["other", "another"]},
        {"exp": 1},
        {"exp": None},
        {"exp": "soon"},
        {"exp": "4000000000"},
        {"exp": True},
        {"exp": float("inf")},
        {"exp": float("nan")},
        {"nbf": "1"},
        {"iat": "1"},
        {"nbf": float("-inf")},
        {"sub": "ann\nolga"},
        {"sub": "ann\0"},
        {"sub": "ann\x7f"},
        {"sub": " ann"},
        {"sub": "ann "},
        {"sub": "\u202eann"},
        {"sub": "a\ud800"},
        {"nbf": 4_000_000_000},
        {"sub": None},
        {"sub": ""},
        {"sub": 7},
    ],
    ids=str,
)
async def test_claims_that_are_not_taken(verifier: JWTVerifier, changed: dict[str, Any]) -> None:
    """Another issuer, another audience, another time, or no one."""
    token = jwt.api_jws.encode(json.dumps(claims(**changed)).encode(), RSA, "RS256", {"kid": "rsa"})
    assert await verifier.find_principal(token) is None


async def test_clocks_may_differ_a_little(verifier: JWTVerifier) -> None:
    """A minute is forgiven."""
    assert await verifier.find_principal(sign(exp=time.time() - 30)) is not None


async def test_forged_tokens(verifier: JWTVerifier) -> None:
    """No key, a secret that is public, another key, another id, and what is no token."""
    public = RSA.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    head = jwt.utils.base64url_encode(json.dumps({"alg": "HS256", "kid": "rsa"}).encode())
    body = jwt.utils.base64url_encode(json.dumps(claims()).encode())
    import hashlib
    import hmac

    signed = b".".join((head, body))
    mark = jwt.utils.base64url_encode(hmac.digest(public, signed, hashlib.sha256))
    good = sign()
    nested = base64.urlsafe_b64encode(b"[" * 11_000).rstrip(b"=").decode()
    forged = [
        jwt.encode(claims(), "", "none"),
        b".".join((signed, mark)).decode(),
        sign(OTHER),
        sign(EC, "ES256", "rsa"),
        sign(kid="unknown"),
        sign(kid=None),
        good[:-4] + "AAAA",
        good + "." + good,
        nested + ".e30.AAAA",
        "\ud800.a.b",
        "ä.b.c",
        "",
        "a.b.c",
        "x" * 100_000,
    ]
    assert [await verifier.find_principal(each) for each in forged] == [None] * len(forged)


@pytest.mark.filterwarnings("ignore::jwt.warnings.InsecureKeyLengthWarning")
def test_weak_keys(path: Path) -> None:
    """One of less than 2048 bits verifies nothing, and is named; others go on."""
    weak = rsa.generate_private_key(65537, 1024)  # noqa: S505 - which is refused
    jwk = {**RSAAlgorithm.to_jwk(weak.public_key(), as_dict=True), "kid": "weak", "alg": "RS256"}
    path.write_text(json.dumps(key_set(weak=jwk)))
    options: dict[str, Any] = {"issuer": "https://login.example", "audience": "tools"}
    options["jwks"] = str(path)
    with capture_logs() as lines:
        verifier = JWTVerifier(**options)
    (line,) = lines
    assert "the RSA key 'weak' has 1024 bits" in line["error"]
    assert asyncio.run(verifier.find_principal(sign(weak, kid="weak"))) is None
    for key, algorithm, kid in ((RSA, "RS256", "rsa"), (EC, "ES256", "ec"), (ED, "EdDSA", "ed")):
        token = sign(key, algorithm, kid)
        assert asyncio.run(verifier.find_principal(token)) is not None
    path.write_text(json.dumps({"keys": [jwk]}))
    with pytest.raises(ConfigurationError, match=r"'weak' has 1024 bits.*one of 2048 or more"):
        JWTVerifier(**options)


@pytest.fixture
def issuer() -> Iterator[tuple[str, list[dict[str, Any]], list[str]]]:
    """A server of keys, what it gives, and what it was asked for."""
    given, asked = [key_set()], []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            body = json.dumps(given[-1]).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/keys", given, asked
    server.shutdown()
    server.server_close()
    thread.join()


async def test_keys_that_change(
    issuer: tuple[str, list[dict[str, Any]], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new key is found; a storm of ids that there are not asks for keys once a minute."""
    url, given, asked = issuer
    verifier = JWTVerifier(issuer="https://login.example", audience="tools", jwks=url)
    found = await asyncio.gather(*(verifier.find_principal(sign()) for _ in range(20)))
    assert all(found)
    assert len(asked) == 1
    for number in range(100):
        assert await verifier.find_principal(sign(OTHER, kid=f"k{number}")) is None
    assert len(asked) == 1

    new = {**RSAAlgorithm.to_jwk(OTHER.public_key(), as_dict=True), "kid": "new"}
    given.append(key_set(new=new))
    monkeypatch.setattr("tool_engine.access.jwt_verifier._PAUSE", 0.0)
    assert await verifier.find_principal(sign(OTHER, kid="new")) is not None
    given.append({"keys": "broken"})
    assert await verifier.find_principal(sign(OTHER, kid="newer")) is None
    assert await verifier.find_principal(sign(OTHER, kid="new")) is not None


async def test_keys_from_elsewhere() -> None:
    """A redirect is not followed: its aim is none that the operator has named."""
    asked = []

    async def answer(request: web.Request) -> web.Response:
        asked.append(request.path)
        if request.path == "/keys":
            raise web.HTTPFound("/others")
        return web.json_response(key_set())

    async with answering(answer) as url:
        said: dict[str, Any] = {"issuer": "https://login.example", "audience": "tools"}
        assert await JWTVerifier(**said, jwks=f"{url}/keys").find_principal(sign()) is None
        assert asked == ["/keys"]
        assert await JWTVerifier(**said, jwks=f"{url}/others").find_principal(sign()) is not None


@pytest.mark.parametrize(("piece", "pause"), [(b" ", 0.01), (b" " * (1 << 16), 0.0)])
async def test_keys_without_end(
    monkeypatch: pytest.MonkeyPatch, piece: bytes, pause: float
) -> None:
    """They are not waited for, nor kept."""
    monkeypatch.setattr("tool_engine.access.jwt_verifier._TIMEOUT", 0.5)

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        with contextlib.suppress(ConnectionError):
            while True:
                await response.write(piece)
                await asyncio.sleep(pause)
        return response

    async with answering(answer) as url, asyncio.timeout(20):
        said: dict[str, Any] = {"issuer": "https://login.example", "audience": "tools"}
        assert await JWTVerifier(**said, jwks=f"{url}/keys").find_principal(sign()) is None


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"keys": []}', '{"keys": [{"kty": "nix"}]}'])
def test_files_without_keys(tmp_path: Path, text: str) -> None:
    """They are said when the server starts, and not when the first client comes."""
    path = tmp_path / "keys.json"
    path.write_text(text)
    with pytest.raises(ConfigurationError, match="no keys can be read from"):
        JWTVerifier(issuer="i", audience="a", jwks=str(path))


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"audience": ""}, "audience must be a text that is not empty"),
        ({"issuer": None}, "issuer must be a text that is not empty"),
        ({"algorithms": ["HS256"]}, "must be some with a public key, got ['HS256']; write some of"),
        ({"algorithms": ["none"]}, "must be some with a public key, got ['none']"),
        ({"algorithms": "RS256"}, "algorithms must be a list of texts, got 'RS256'"),
        ({"algorithms": [7]}, "algorithms must be a list of texts, got [7]"),
        ({"algorithms": []}, "must be some with a public key, got []; write some of RS256"),
        ({"tools": "notes_*"}, "tools must be a list of texts, got 'notes_*'"),
        ({"tools": None}, "tools must be a list of texts, got None"),
        ({"tools": ["notes *"]}, "tools: 'notes *' matches no name of a tool"),
        ({"jwks": "/nix/keys.json"}, "no keys can be read from '/nix/keys.json'"),
        ({"jwks": "http://login.example/keys"}, "could be changed on their way; give an https URL"),
        ({"jwks": "ftp://login.example/keys"}, "could be changed on their way"),
    ],
)
def test_wrong_settings(path: Path, changed: dict[str, Any], says: str) -> None:
    """What would take tokens of anyone, or of no one, is refused."""
    said = {"issuer": "i", "audience": "a", "jwks": str(path), **changed}
    with pytest.raises(ConfigurationError) as caught:
        JWTVerifier(**said)
    assert says in str(caught.value)
