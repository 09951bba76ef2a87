"""Where in a text does something have the shape of a secret?

Issuers give their keys recognisable beginnings; prefixes, alphabets and lengths are those that the
issuers document and secret scanners agree on. Each pattern is linear: it begins with a literal and
either takes all of what follows or has a bounded length. None is tried, nor compiled, before its
literal was found in the text.
"""

from __future__ import annotations

import re
from binascii import Error, a2b_base64
from collections.abc import Callable, Iterator
from functools import cache
from typing import Final, NamedTuple

Span = tuple[int, int]


class _Shape(NamedTuple):
    """One kind of secret; a `secret` group in the pattern is the part to hide."""

    literal: str
    """A part of every text that holds one."""
    pattern: str
    is_secret: Callable[[re.Match[str]], bool] | None = None
    """Checks a match; None: every match is a secret."""


def _is_credentials(match: re.Match[str]) -> bool:
    """HTTP's basic credentials are `user:password` in base64; `Basic terms` are not."""
    text = match["secret"]
    try:
        return b":" in a2b_base64(text + "=" * (-len(text) % 4))
    except Error:
        return False


def _is_bearer(match: re.Match[str]) -> bool:
    """Return True for a token; `Bearer authentication` is prose."""
    text = match["secret"]
    return len(text) >= 16 or any(letter.isdigit() for letter in text)


def _has_digit(match: re.Match[str]) -> bool:
    """Identifiers in programs rarely have many digits."""
    return sum(letter.isdigit() for letter in match[0]) > 2


def _is_jwt(match: re.Match[str]) -> bool:
    return match["rest"] is not None and match.end() - match.start() >= 20


def _token_pattern(prefix: str, tail: str, *, free: bool = True) -> str:
    """Return the pattern of a token; `free`: `_` or `-` may stand before it."""
    return (r"(?<![A-Za-z0-9])" if free else r"(?<![\w\-])") + prefix + tail


_END: Final = r"(?![A-Za-z0-9])"
_AWS: Final = _token_pattern(r"(?:AKIA|ASIA|ABIA|ACCA|A3T[A-Z0-9])", r"[A-Z0-9]{16}") + _END
_DASHED: Final = (
    _Shape(
        "sk-", _token_pattern(r"sk-(?:ant|proj|svcacct|admin|or|lf)-", r"[\w\-]{16,}", free=False)
    ),
    _Shape("sk-", _token_pattern("sk-", r"[A-Za-z0-9]{16,}", free=False)),
    _Shape("glpat-", _token_pattern("glpat-", r"[\w\-]{20,}(?:\.[0-9a-z]{9})?")),
    _Shape("gl", _token_pattern("gl(?:ptt|dt|rt|cbt|ft|imt|agent|soat|oas|ffct)-", r"[\w\-]{20,}")),
    _Shape("xox", _token_pattern("xox[abeoprs]-", r"[A-Za-z0-9\-]{10,}")),
    _Shape("xapp-", _token_pattern(r"xapp-\d-", r"[A-Za-z0-9\-]{20,}")),
    _Shape("pypi-", _token_pattern("pypi-AgE", r"[\w\-]{50,}")),
    _Shape("GOCSPX-", _token_pattern("GOCSPX-", r"[\w\-]{20,}")),
    _Shape("pplx-", _token_pattern("pplx-", r"[A-Za-z0-9]{40,}")),
    _Shape("PMAK-", _token_pattern("PMAK-", r"[a-f0-9]{24}-[a-f0-9]{34}")),
    _Shape("NRAK-", _token_pattern("NRAK-", r"[A-Z0-9]{27}")),
    _Shape("sq0", _token_pattern("sq0(?:atp|csp)-", r"[\w\-]{22,}")),
    _Shape("xkeysib-", _token_pattern("xkeysib-", r"[a-f0-9]{64}-[A-Za-z0-9]{16}")),
    _Shape("xai-", _token_pattern("xai-", r"[A-Za-z0-9]{40,}")),
    _Shape("tvly-", _token_pattern("tvly-", r"[A-Za-z0-9\-]{20,}")),
    _Shape("nvapi-", _token_pattern("nvapi-", r"[\w\-]{40,}")),
    _Shape("csk-", _token_pattern("csk-", r"[A-Za-z0-9]{40,}")),
    _Shape("pat-", _token_pattern(r"pat-(?:na|eu|ap)\d-", r"[a-f0-9\-]{36,}")),
    _Shape("AGE-SECRET-KEY-", "AGE-SECRET-KEY-1[A-Z0-9]{58}"),
    _Shape("key-", _token_pattern("key-", "[a-f0-9]{32}", free=False) + _END),
    _Shape("-us", _token_pattern("", r"[a-f0-9]{32}-us\d{1,2}") + _END),
    _Shape(
        "-----BEGIN ",
        r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----[\s\S]*?"
        r"(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|\Z)",
    ),
)
_UNDERLINED: Final = (
    _Shape("gh", _token_pattern("gh[pousr]_", r"[A-Za-z0-9]{20,}")),
    _Shape("github_pat_", _token_pattern("github_pat_", r"\w{20,}")),
    _Shape("k_", _token_pattern("[sr]k_(?:live|test|prod)_", r"[A-Za-z0-9]{10,}")),
    _Shape("whsec_", _token_pattern("whsec_", r"[A-Za-z0-9+/]{20,}")),
    _Shape("npm_", _token_pattern("npm_", r"[A-Za-z0-9]{36,}")),
    _Shape("hf_", _token_pattern("hf_", r"[A-Za-z0-9]{30,}")),
    _Shape("api_org_", _token_pattern("api_org_", r"[A-Za-z]{34,}")),
    _Shape("_v1_", _token_pattern("do[opr]_v1_", r"[a-f0-9]{64}")),
    _Shape("shp", _token_pattern("shp(?:at|ca|pa|ss)_", r"[A-Fa-f0-9]{32}")),
    _Shape("lin_api_", _token_pattern("lin_api_", r"[A-Za-z0-9]{40}")),
    _Shape("ntn_", _token_pattern("ntn_", r"[A-Za-z0-9]{40,}")),
    _Shape("pscale_", _token_pattern("pscale_(?:tkn|oauth|pw)_", r"[\w=.\-]{32,}")),
    _Shape("rubygems_", _token_pattern("rubygems_", r"[a-f0-9]{48}")),
    _Shape("gls", _token_pattern("glsa_", r"[A-Za-z0-9]{32}_[A-Fa-f0-9]{8}")),
    _Shape("glc_", _token_pattern("glc_", r"[A-Za-z0-9+/]{32,}=*")),
    _Shape("sntry", _token_pattern("sntry[su]_", r"[\w+/=\-]{30,}")),
    _Shape("pcsk_", _token_pattern("pcsk_", r"\w{30,}")),
    _Shape("gsk_", _token_pattern("gsk_", r"[A-Za-z0-9]{40,}")),
    _Shape("r8_", _token_pattern("r8_", r"[A-Za-z0-9]{32,}") + _END),
    _Shape("fig", _token_pattern("fig(?:d|u|o|or|uh)_", r"[\w\-]{30,}")),
    _Shape("secret_", _token_pattern("secret_", r"[A-Za-z0-9]{43}") + _END),
    _Shape("sbp_", _token_pattern("sbp_", r"[a-f0-9]{40}")),
    _Shape("dckr_pat_", _token_pattern("dckr_pat_", r"[\w\-]{20,}")),
    _Shape("jina_", _token_pattern("jina_", r"[\w\-]{40,}")),
    _Shape("e2b_", _token_pattern("e2b_", r"[a-f0-9]{40}")),
    _Shape("lsv2_", _token_pattern("lsv2_(?:pt|sk)_", r"[a-f0-9]{32}_[a-f0-9]{8,}")),
    _Shape("fw_", _token_pattern("fw_", r"[A-Za-z0-9]{22,}") + _END, _has_digit),
    _Shape("fm2_", _token_pattern("fm2_", r"[A-Za-z0-9+/]{100,}=*")),
)
_DOTTED: Final = (
    _Shape("ya29.", _token_pattern(r"ya29\.", r"[\w\-]{20,}")),
    _Shape("SG.", _token_pattern(r"SG\.", r"[\w\-]{16,64}\.[\w\-]{16,64}")),
    _Shape("hv", _token_pattern(r"hv[sb]\.", r"[\w\-]{24,}")),
    _Shape("dp.", _token_pattern(r"dp\.(?:pt|st|ct|sa)\.", r"[\w\-.]{40,}")),
    _Shape("dt0c01.", _token_pattern(r"dt0c01\.", r"[A-Z0-9]{24}\.[A-Z0-9]{64}")),
    _Shape("eyJ", r"eyJ[\w\-]*+(?P<rest>\.[\w\-]{6,}+(?:\.[\w\-]*+){1,3})?", _is_jwt),
    _Shape(
        "hooks.slack.com/", r"hooks\.slack\.com/(?:services|workflows|triggers)/(?P<secret>[\w/+]+)"
    ),
    _Shape("/api/webhooks/", r"discord(?:app)?\.com/api/webhooks/\d+/(?P<secret>[\w\-]+)"),
    _Shape(".webhook.office.com/", r"\.webhook\.office\.com/webhookb2/(?P<secret>[\w\-@/]+)"),
)
_WITH_A: Final = (
    _Shape("AIza", _token_pattern("AIza", r"[\w\-]{35}") + _END),
    _Shape("A", _AWS),
    _Shape("ATATT3", _token_pattern("ATATT3", r"[\w=\-]{60,}")),
)
_WITH_K: Final = (_Shape("SK", _token_pattern("SK", "[0-9a-f]{32}") + _END),)
_WITH_G: Final = (_Shape("GR1348941", _token_pattern("GR1348941", r"[\w\-]{20}")),)
_CURVED: Final = (_Shape("Q~", r"(?<![\w~.])[\w~.]{3}\dQ~[\w~.\-]{31,34}"),)
_SLASHED: Final = (_Shape("1//0", r"(?<![A-Za-z0-9/])1//0[\w\-]{40,}"),)
_OTHERS: Final = (_Shape("dapi", _token_pattern("dapi", r"[a-f0-9]{32}(?:-\d)?") + _END),)
_SPACED: Final = (
    _Shape("earer ", r"(?<![\w\-])[Bb]earer\s+(?P<secret>[A-Za-z0-9._~+/\-]{8,}+=*)", _is_bearer),
    _Shape(
        "asic ",
        r"(?<![\w\-])[Bb]asic\s+(?P<secret>[A-Za-z0-9+/]{4,}+={0,2}+)(?![\w\-])",
        _is_credentials,
    ),
)
_ADDRESSES: Final = (
    # Up to the last @, for passwords may hold some; `host:80?mail=a@b` has a port, and no password.
    _Shape("@", r"(?<=://)(?!:@|[\w.\-]*:\d{1,5}[?#])[^/\s\"'`@:]*:[^/\s\"'`]*(?=@)"),
    _Shape("@", r"(?<=://)[^/\s\"'`@:\[]{0,64}:(?!\d{1,5}[/?#])[^\s\"'`@]{1,256}(?=@)"),
    _Shape("@", r"(?<=://)[\w.~%\-]{20,}+(?=@)"),
    _Shape(
        "://",
        r"(?:https?|git\+ssh)://(?!(?:git|user|username|me|anonymous)@)"
        r"(?P<secret>[^/\s\"'`@:<>\[\]{}$?#]{1,256}+)@",
    ),
    _Shape("ig", r"(?i)[?&](?:X-Amz-|X-Goog-)?sig(?:nature)?=(?P<secret>[\w%+/=\-]{16,})"),
    _Shape(":A", r"(?<![\w\-])\d{8,10}:A[\w\-]{34}(?![\w\-])"),
)
_BY_MARK: Final = (
    ("-", _DASHED),
    ("_", _UNDERLINED),
    (".", _DOTTED),
    (" ", _SPACED),
    (":", _ADDRESSES),
    ("A", _WITH_A),
    ("K", _WITH_K),
    ("G", _WITH_G),
    ("~", _CURVED),
    ("/", _SLASHED),
    ("", _OTHERS),
)
"""The shapes by a character that all of them contain: one is found many times as fast as two."""
LITERALS: Final = frozenset(shape.literal for _, shapes in _BY_MARK for shape in shapes)
"""A text without any of them has no shape of a secret."""
_SHORTEST: Final = 8
SHORTEST_WORD: Final = 20
"""Characters of the shortest secret that has letters and digits alone: the id of an AWS key."""
_MOST_FINDS: Final = 4_000
"""A text with more of one shape is hidden from there on: it was made to take long."""
_NEAR: Final = 240
"""Characters around an AWS key id in which its secret is searched."""
_LIKE_AWS: Final = r"(?<![A-Za-z0-9/+=])(?![0-9a-f]{40})[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+=])"


def shape_spans(text: str) -> Iterator[Span]:
    """Yield the spans of `text` that look like a secret."""
    if len(text) < _SHORTEST:
        return
    for mark, shapes in _BY_MARK:
        if mark in text:
            for shape in shapes:
                if shape.literal in text:
                    yield from _find_spans(shape, text)


def _find_spans(shape: _Shape, text: str) -> Iterator[Span]:
    pattern = _compile_pattern(shape.pattern)
    group = "secret" if "secret" in pattern.groupindex else 0
    for number, match in enumerate(pattern.finditer(text)):
        if number >= _MOST_FINDS:
            yield match.start(), len(text)
            return
        if shape.is_secret is None or shape.is_secret(match):
            yield match.span(group)
            if shape.pattern is _AWS:
                yield from _find_near_key(match, text)


def _find_near_key(key_id: re.Match[str], text: str) -> Iterator[Span]:
    """Yield AWS secrets near their key id: they have no shape of their own."""
    start, end = max(0, key_id.start() - _NEAR), key_id.end() + _NEAR
    for match in _compile_pattern(_LIKE_AWS).finditer(text, start, end):
        yield match.span()


@cache
def _compile_pattern(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.ASCII)
