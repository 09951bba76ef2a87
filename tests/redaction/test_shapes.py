"""Which texts have the shape of a secret, and which only nearly?"""

from __future__ import annotations

import pytest

from tool_engine.redaction import HIDDEN, redact_text
from tool_engine.redaction.shapes import SHORTEST_WORD

A = "a1B2c3D4" * 12
HEX = "0a1b2c3d" * 8
PEM = "-----BEGIN OPENSSH PRIVATE KEY-----\nabc\n-----END OPENSSH PRIVATE KEY-----"
WHOLE = {
    "OpenAI": "sk-" + A[:48],
    "OpenAI project": f"sk-proj-{A}-x_y",
    "Anthropic": f"sk-ant-api03-{A}",
    "GitHub": "ghp_" + A[:36],
    "GitHub app": "ghs_" + A[:36],
    "GitHub fine-grained": f"github_pat_{A[:22]}_{A[:59]}",
    "GitLab": "glpat-" + A[:20],
    "GitLab runner": "glrt-" + A[:20],
    "Slack bot": "xoxb-1234567890-1234567890-abcdefghijkl",
    "Slack app": f"xapp-1-A0123-456-{HEX}",
    "AWS": "AKIAIOSFODNN7EXAMPLE",
    "AWS session": "ASIAIOSFODNN7EXAMPLE",
    "Google": "AIza" + A[:35],
    "Google OAuth": "ya29." + A[:40],
    "Google client": "GOCSPX-" + A[:28],
    "Stripe": "sk_live_" + A[:24],
    "Stripe restricted": "rk_test_" + A[:24],
    "Stripe webhook": "whsec_" + A[:32],
    "Twilio": "SK" + HEX[:32],
    "SendGrid": f"SG.{A[:22]}.{A[:43]}",
    "npm": "npm_" + A[:36],
    "PyPI": "pypi-AgEIcHlwaS5vcmc" + A,
    "Hugging Face": "hf_" + A[:34],
    "DigitalOcean": "dop_v1_" + HEX,
    "Databricks": "dapi" + HEX[:32],
    "Shopify": "shpat_" + HEX[:32],
    "Mailgun": "key-" + HEX[:32],
    "Mailchimp": HEX[:32] + "-us12",
    "Vault": "hvs." + A,
    "Square": "sq0atp-" + A[:22],
    "Telegram": "123456789:AA" + A[:33],
    "Azure": f"abc8Q~{A[:34]}",
    "JWT": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abc-_def",
    "JWT without signature": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.",
    "JWE": "eyJhbGciOiJIUzI1NiJ9.aaaaaaaa.bbbb.cccc.dddd",
    "private key": PEM,
    "private key in JSON": PEM.replace("\n", "\\n"),
    "private key that is cut": "-----BEGIN PRIVATE KEY-----\nabc",
    "xAI": "xai-" + A[:80],
    "Groq": "gsk_" + A[:52],
    "Replicate": "r8_" + A[:37],
    "Figma": "figd_" + A[:40],
    "age": "AGE-SECRET-KEY-1" + "Q" * 58,
    "Notion": "secret_" + A[:43],
    "Notion of today": "ntn_" + A[:46],
    "Tavily": "tvly-dev-" + A[:32],
    "NVIDIA": "nvapi-" + A[:64],
    "Cerebras": "csk-" + A[:48],
    "HubSpot": "pat-na1-0a1b2c3d-1111-2222-3333-0a1b2c3d0a1b",
    "Supabase": "sbp_" + HEX[:40],
    "Docker": "dckr_pat_" + A[:27],
    "Jina": "jina_" + A[:60],
    "E2B": "e2b_" + HEX[:40],
    "LangSmith": f"lsv2_pt_{HEX[:32]}_{HEX[:10]}",
    "Fireworks": "fw_" + A[:24],
    "Sentry, of an organisation": "sntrys_" + A[:48],
    "Pinecone": f"pcsk_{A[:6]}_{A[:50]}",
    "PGP": "-----BEGIN PGP PRIVATE KEY BLOCK-----\nabc\n-----END PGP PRIVATE KEY BLOCK-----",
}
PARTS = {
    "postgres://me:p@ss:w@host/db": "postgres://[hidden]@host/db",
    "redis://:pw12@host:6379/0": "redis://[hidden]@host:6379/0",
    "mongodb+srv://u:pw@h1,h2/db?x=1": "mongodb+srv://[hidden]@h1,h2/db?x=1",
    f"https://{A[:24]}@host/x": "https://[hidden]@host/x",
    "https://TOKEN@host/": "https://[hidden]@host/",
    "see http://x-access@host/a": "see http://[hidden]@host/a",
    "pip install git+ssh://TOKEN@host/": "pip install git+ssh://[hidden]@host/",
    "got Bearer abcdefgh1234 there": "got Bearer [hidden] there",
    "got Basic dXNlcjpwYXNz there": "got Basic [hidden] there",
    "https://a.blob.core.windows.net/x?sv=1&sig=abcdefghijklmnop%3D": (
        "https://a.blob.core.windows.net/x?sv=1&sig=[hidden]"
    ),
    "hooks.slack.com/services/T0/B0/xyz now": "hooks.slack.com/services/[hidden] now",
    "https://discord.com/api/webhooks/12/ab-c_d": "https://discord.com/api/webhooks/12/[hidden]",
    "AKIAIOSFODNN7EXAMPLE wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY": "[hidden] [hidden]",
}
SHOWN = [
    "task-sk-learn-contrib-extension-pack",
    "sk-learn-contrib-extensions-pack",
    "sk-short",
    "6fa459ea-ee8a-3ca4-894e-db77e160355e",
    "da39a3ee5e6b4b0d3255bfef95601890afd80709",
    "d41d8cd98f00b204e9800998ecf8427e",
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "AKIAIOSFODNN7EXAMPLE".lower(),
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAUAAAAFCAYAAACNbyblAAAAHElEQVQI12P4//8/w3",
    "8GIAXDIBKE0DHxgljNBAAO9TXL0Y4OHwAAAABJRU5ErkJggg==",
    "Bearer authentication is needed",
    "Basic operations, Basic authentication",
    "https://host:8080?email=a@b.c",
    "https://host:8080/x?email=a@b.c",
    "https://user@host/x",
    "git+ssh://git@github.com/a/b ssh://deploy@host/",
    "http://[::1]:80/",
    "https://:@host/",
    "mail me at a@b.c: now",
    "eyJust a text. with.dots",
    "eyJhbGciOiJIUzI1NiJ9 and no more",
    "2026-11-22T07:45:51.123456+00:00",
    "-----BEGIN CERTIFICATE-----\nabc\n-----END CERTIFICATE-----",
    "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY is a path without a key",
    "SKU 0123, SKILLS, ASIAN, AKIA",
    "https://git@host/a https://{token}@host https://$TOKEN@host https://<key>@host",
    "ssh://deploy@host git@github.com:a/b",
    "secret_of_the_old_house, gsk_model, fw_version, xai-grok, figd_x, r8_x",
    "hf_model, npm_config, key-value, ya29",
]


@pytest.mark.parametrize("kind", WHOLE)
def test_shapes(kind: str) -> None:
    """D20: what has the shape of a secret is hidden wherever it stands, all of it."""
    assert redact_text(WHOLE[kind]) == HIDDEN
    assert redact_text(f"it is '{WHOLE[kind]}'").startswith(f"it is '{HIDDEN}")


@pytest.mark.parametrize("text", PARTS)
def test_parts(text: str) -> None:
    """D20: of an address or a header, the secret is hidden and the rest stays to be read."""
    assert redact_text(text) == PARTS[text]
    assert redact_text(PARTS[text]) == PARTS[text]


@pytest.mark.parametrize("text", SHOWN)
def test_near_misses(text: str) -> None:
    """D20: identifiers, hashes, pictures, addresses and prose stay as they are."""
    assert redact_text(text) == text


def test_no_short_word_is_a_secret() -> None:
    """A shorter word of letters and digits alone is shown without a closer look."""
    words = [each for each in WHOLE.values() if each.isalnum()]
    assert min(map(len, words)) == SHORTEST_WORD
    assert [redact_text(each) for each in words] == [HIDDEN] * len(words)
