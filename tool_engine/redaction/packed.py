"""Can MessagePack hold anything that is hidden?

To read a table back and look at each of its values takes many times as long as to write it. So all
its bytes are searched at once, by an automaton, for what each secret has in it: a part of its name,
or of its shape. Where nothing is found there is nothing to hide; else the values are looked at.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Final

import jsonschema_rs

from tool_engine.redaction.known import known_secrets
from tool_engine.redaction.pairs import HINTS
from tool_engine.redaction.shapes import LITERALS

_LIKE: Final = {
    "a": "ª",
    "h": "ʰ",
    "j": "ʲ",
    "o": "º",
    "r": "ʳ",
    "s": "ſˢ",
    "w": "ʷ",
    "y": "ʸ",
}
"""Letters that are read as another one in a name (NFKC), and take two bytes."""
_FURTHER: Final = (
    r"\xe1(?:[\xb4-\xb6][\x80-\xbf]|\xba\x9a)"
    r"|\xe2(?:\x81[\xb1\xbf]|[\x82\x84\x85\x92\x93][\x80-\xbf]|\xb1[\xbc\xbd])"
    r"|\xe3[\x88-\x8f][\x80-\xbf]"
    r"|\xea(?:\x9f[\xb0-\xbf]|\xad[\x9c-\x9f])"
    r"|\xef(?:\xac[\x80-\x86]|[\xbc\xbd][\x80-\xbf])"
    r"|\xf0(?:\x9d[\x90-\x9f]|\x9e[\xa5-\xbf]|\x9f[\x84-\x86]|\x90[\x9d-\x9f])[\x80-\xbf]"
)
"""The others: raised and wide ones, those in circles, in squares, of mathematics, ligatures."""
_PARTS: Final = (
    r"\xe1[\x84-\x87][\x80-\xbf]"
    r"|\xe2[\xba-\xbf][\x80-\xbf]"
    r"|\xe3(?:\x82[\x99-\x9c]|\x83\xbf|[\x84-\x8f][\x80-\xbf])"
    r"|\xea\xa5[\xa0-\xbf]"
    r"|\xed[\x9e-\x9f][\x80-\xbf]"
    r"|\xef[\xa4-\xab\xbd-\xbf][\x80-\xbf]"
    r"|\xf0(?:\xaf[\xa0-\xa8]|\x9f[\x88-\x89])[\x80-\xbf]"
)
"""Parts and other forms of Chinese, Japanese and Korean characters."""
_WIDE: Final = r"[\xe1-\xed\xef][\x80-\xbf]{2}"
_SQUARE: Final = r"\xe3[\x8d-\x8f][\x80-\xbf]"
"""Two letters of a unit in one."""
_CIRCLED: Final = r"\xe3\x8a\x99"
"""The sign of a circle with the character for secret in it."""
_SIGNS: Final = {
    "sk-": r"sk-[A-Za-z0-9_-]{8}",
    "gl": r"gl[a-z]{2,5}-",
    "-us": r"[a-f0-9]-us[0-9]",
    "pat-": r"pat-[a-z]{2}[0-9]",
    "gh": r"gh[pousr]_",
    "k_": r"[sr]k_[lpt]",
    "hf_": r"hf_[A-Za-z0-9]{8}",
    "_v1_": r"do[opr]_v1_",
    "shp": r"shp[acps][ats]_",
    "fw_": r"fw_[A-Za-z0-9]{8}",
    "fig": r"fig[dour][rh]?_",
    "hv": r"hv[sb]\.",
    "dp.": r"dp\.[psc]",
    "A": r"A(?:KIA|SIA|BIA|CCA|3T)",
    "SK": r"SK[0-9a-f]{8}",
    "Q~": r"[0-9]Q~",
    "dapi": r"dapi[a-f0-9]{8}",
    "@": r"://[^ \t\n\r\f\v\"'`]*@",
    "://": r"://[^ \t\n\r\f\v\"'`]*@",
    "ig": r"[?&=_-][sS][iI][gG]",
    ":A": r"[0-9]{8}:A",
}
"""More of what follows or precedes a literal of which most texts have some."""
_ESCAPES: Final = (
    r"%[0-9A-Fa-f]{2}",
    r"&(?:#[0-9xX]|[A-Za-z][A-Za-z0-9]{1,31};)",
    r"\\(?:[uUx][0-9A-Fa-f{]|[\\/\"'`abfnrtv0])",
)
"""What begins a secret that is written with escapes."""


def may_hold_secret(data: bytes) -> bool:
    """Return False if nothing in the values of a MessagePack is hidden."""
    forms = known_secrets.list_forms()
    # Each byte as a character: to find out what is text would take as long as to read the values.
    return forms is None or _compile_signs(forms).is_valid(data.decode("latin-1"))


@lru_cache(maxsize=1)
def _compile_signs(forms: tuple[str, ...]) -> jsonschema_rs.Validator:
    """Return what finds all signs, and these forms of known secrets."""
    names = map(_spell_hint, (*HINTS, "curl"))
    # Each part of a name has three letters, or two that are wide: fewer stand in many numbers.
    one, any_ = f"(?:{_FURTHER})", f"(?:[A-Za-z]|{_FURTHER})"
    further = (one + any_ + any_, any_ + one + any_, any_ + any_ + one)
    units = (_SQUARE + "[A-Za-z]", "[A-Za-z]" + _SQUARE)
    wide = (f"(?:{_PARTS})(?:{_WIDE})", f"(?:{_WIDE})(?:{_PARTS})", _CIRCLED)
    known = (*map(_as_bytes, forms), *_ESCAPES) if forms else ()
    parts = (*names, *further, *units, *wide, *map(_sign_of, LITERALS), *known)
    # The one automaton among what is installed that never goes back in its text.
    return jsonschema_rs.Draft202012Validator(
        {"pattern": "|".join(parts)}, pattern_options=jsonschema_rs.RegexOptions()
    )


def _sign_of(literal: str) -> str:
    return _SIGNS.get(literal) or _as_bytes(literal)


def _spell_hint(hint: str) -> str:
    """Return the pattern of a part of a name, in whatever letters it is written."""
    return "".join(map(_spell_letter, hint))


def _spell_letter(letter: str) -> str:
    spelled = {letter, letter.upper(), *_LIKE.get(letter, "")}
    return f"(?:{'|'.join(sorted(map(_as_bytes, spelled)))})"


@cache
def _as_bytes(text: str) -> str:
    """Return the pattern of a text in UTF-8, of which each byte is a character."""
    return "".join(
        chr(byte) if chr(byte).isalnum() and byte < 0x80 else f"\\x{byte:02x}"
        for byte in text.encode("utf-8", "surrogatepass")
    )
