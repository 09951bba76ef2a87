"""What each client would load anew: the certificates, which no server on loopback shows."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from functools import cache
from importlib import import_module

import pytest


@pytest.fixture(scope="session", autouse=True)
def _certificates_once() -> Iterator[None]:
    """Half of the time of these tests was to read the same file of certificates."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(ssl, "create_default_context", cache(ssl.create_default_context))
        yield


@pytest.fixture(scope="session", autouse=True)
def _sdks_once() -> None:
    """On a busy machine the first use of an SDK would take more than a test has."""
    for name in ("openai.resources.chat", "openai.resources.responses", "anthropic.resources"):
        import_module(name)
    import_module("google.genai")
