"""Is this the name of something secret?

A name is read as words, and its last words decide: `token` and `access_token` hold a secret,
`token_count` and `token_url` do not. Names that are written without a gap (`accesstoken`) are read
by their ending.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import Final


def _split_words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?(?:(?![A-Z])[^\W\d_])+")
_LONGEST: Final = 256
"""Characters at the end of a name that are looked at."""

_ALONE: Final = _split_words(
    "auth authorisation authorization bearer cookie cookies cred credential credentials creds cvc "
    "cvv dsn jwt kubeconfig mnemonic otp pass passwd password passwords pwd secret secrets session "
    "totp"
)
"""Last words that name a secret by themselves."""
_ENDINGS: Final = (
    *("password", "passwords", "passwd", "passphrase", "passcode", "secret", "secrets", "apikey"),
    *("apikeys", "accesskey", "secretkey", "privatekey", "sessid", "sessionid", "connectionstring"),
    *("connstring", "connstr", "credentials", "dbpass", "userpass", "sshpass", "setcookie"),
    *("passwort", "kennwort", "senha", "contraseña", "пароль", "密码", "密碼", "口令", "密钥"),
    *("パスワード", "비밀번호", "令牌", "權杖", "トークン", "토큰", "秘钥", "秘鑰"),
)
_PHRASES: Final = _split_words(
    "access-code auth-code auth-header authorization-code authorization-header backup-code "
    "backup-codes client-assertion code-verifier conn-str connect-sid conn-string "
    "connection-string connection-strings mfa-code de-passe otp-code pass-code pass-phrase "
    "pass-word pin-code recovery-code recovery-codes recovery-phrase secret-id security-answer "
    "security-code seed-phrase session-id access-signature verification-code"
)
_KEYS: Final = _split_words(
    "access account admin aes api app application auth bot client consumer decryption deploy des "
    "encryption function functions gpg hmac host license master pgp private recovery root rsa "
    "secret server service session shared sign signing ssh storage subscription user vault "
    "webhook"
)
"""The words before a secret `key`; every other key (`cache_key`, `public_key`) is shown."""
_PLACES: Final = _split_words(
    "begin bos cls continuation cursor end eos first last mask next pad page paging prev previous "
    "resume scroll sep special start stop sync unk"
)
"""Words before a `token` that marks a place in a list or text."""
_OWNED: Final = _split_words(
    "access api auth bearer bot csrf device id oauth personal push refresh registration security "
    "service session user xsrf"
)
"""Words before secret `tokens`; other `tokens` are counts."""
_QUALIFIED: Final = {
    "token": (_PLACES, False),
    "tokens": (_OWNED, True),
    "key": (_KEYS, True),
    "keys": (_KEYS, True),
    "pass": (_split_words("boarding by first multi second single"), False),
}
"""Last words that depend on the one before: must it be (True) or not be (False) in the set?"""
_ASKING: Final = _split_words(
    "accept allow allowed disable enable has hide invalid is max maximum min minimum missing need "
    "needs no num require required requires show skip total use uses with without"
)
"""First words of a name whose value is about a secret, and is none."""
_TAILS: Final = _split_words(
    "again base binary b confirm confirmation current data default dev digest encoded encrypted "
    "hash hex json live new old pem plain plaintext prod production raw repeat salt staging string "
    "test text value"
)
"""Last words after which the value is still the secret, in another form."""
_FOLDERS: Final = frozenset({"PWD", "OLDPWD"})
"""Variables of the environment: the working folder."""


def is_secret_key(name: str) -> bool:
    """Return True if a key of this name usually holds a secret, however spelled."""
    return _is_secret(name) if len(name) <= _LONGEST else _is_secret.__wrapped__(name[-_LONGEST:])


@lru_cache(maxsize=4096)
def _is_secret(name: str) -> bool:
    if name in _FOLDERS:
        return False
    if not name.isascii():
        name = unicodedata.normalize("NFKC", name)
    words = [word.lower() for word in _WORD.findall(name)]
    if not words or (words[0] in _ASKING and len(words) > 1):
        return False
    if _names_secret(words):
        return True
    if words[-1] not in _TAILS:
        return False
    while words and words[-1] in _TAILS:
        words.pop()
    # A bare token's text is one of a language model's tokens.
    if words == ["token"]:
        return name.lower().endswith("value")
    return bool(words) and _names_secret(words)


def _names_secret(words: list[str]) -> bool:
    last, before = words[-1], words[-2] if len(words) > 1 else ""
    if last in _QUALIFIED:
        names, is_one_of_them = _QUALIFIED[last]
        return (before in names) is is_one_of_them
    is_plain = last in _ALONE or last.endswith(_ENDINGS)
    return is_plain or f"{before}-{last}" in _PHRASES or _is_joined(last)


def _is_joined(word: str) -> bool:
    """Return True for joined words, as in `idtoken` or `sharedkey`."""
    if word.endswith("token"):
        return not word.removesuffix("token").endswith(tuple(_PLACES))
    return word.endswith("key") and word.removesuffix("key") in _KEYS
