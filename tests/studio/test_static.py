"""Are the scripts of others exactly those that were looked at?"""

from __future__ import annotations

from hashlib import sha256

from tool_engine.studio.rendering import list_static

VENDORED = {
    "htmx-4.0.1.min.js": "a0abb04f2f45a1f89d1d4844023245537e5e6014c87b144553e0607b4cc32130",
    "hx-sse-4.0.1.min.js": "18ef2761356ec1fe0bb6d92612315b37517a7c1e9856b661c5ae81fef239d103",
}
"""As npm has them in htmx.org 4.0.1."""


def test_what_comes_from_elsewhere() -> None:
    files = list_static()
    assert {name: sha256(files[name]).hexdigest() for name in VENDORED} == VENDORED
    assert "Zero-Clause BSD" in files["htmx-LICENSE.txt"].decode()
