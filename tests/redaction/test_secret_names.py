"""Which names of keys hold secrets, and which only look as if they did?"""

from __future__ import annotations

import pytest

from tool_engine.redaction import HIDDEN, is_secret_key, redact
from tool_engine.redaction.pairs import HINTS

_SECRET = """
password Password db_password passwd pwd secret client_secret token access_token accessToken
refresh-token api_key apiKey X-API-Key X-Api-Key authorization Proxy-Authorization cookie
Set-Cookie private_key credentials session.id sessionId refresh_token passphrase connection_string
ConnectionString connectionStrings dsn session auth basic_auth APIKEY apikey api-key API_KEY
OPENAI_API_KEY aws_secret_access_key AWS_SECRET_ACCESS_KEY secretAccessKey accessKey access_key
ACCOUNT_KEY AccountKey SharedAccessKey SharedAccessSignature sas_token id_token idToken bearer
bearer_token jwt JWT authToken auth_token authtoken x-auth-token X-Amz-Security-Token sessionToken
session_token csrf_token csrftoken csrfmiddlewaretoken xsrf-token X-CSRF-Token oauth_token
oauth_token_secret consumer_secret webhook_secret signing_secret signing_key encryption_key
encryptionKey master_key ssh_key ssh_private_key privateKey PRIVATE_KEY private_key_pem
service_account_key client_key_data PGPASSWORD MYSQL_PWD REDISCLI_AUTH userPassword newPassword
old_password password_confirmation passwordHash password_hash password1 pass smtp_pass dbPass
sshpass JSESSIONID PHPSESSID sessid connect.sid otp totp mfa_code cvv cvc pin_code recovery_codes
seed_phrase mnemonic creds user_credentials kubeconfig Ocp-Apim-Subscription-Key x-functions-key
license_key secrets client_secrets app_secret appSecret secret_id secretString SecretBinary
token_value api_token api_tokens access_tokens github_token GITHUB_TOKEN GH_TOKEN NPM_TOKEN
slack_bot_token verification_code authorization_code code_verifier client_assertion hmac_key 密码
用户密码 口令 пароль contraseña パスワード ｐａｓｓｗｏｒｄ api_key_prod apiKeyLive password_base64
mot_de_passe Passwort vault_token pass_word refreshtoken storage_key cookies session_cookie
authorization_header
"""
_SHOWN = """
tokens_used author authority secretary passage keyboard cookies_ok token_count max_tokens
next_page_token nextPageToken page_token nextToken next_token sync_token continuation_token tokens
prompt_tokens completion_tokens total_tokens token_type token_url token_uri token_endpoint
token_limit token_id token_ids token_text input_tokens output_tokens tokenizer tokenize first_token
eos_token pad_token stop_token special_tokens num_tokens min_tokens maxTokens key keys primary_key
foreign_key partition_key sort_key cache_key public_key publicKey key_id idempotency_key
Idempotency-Key routing_key object_key key_name keyword keywords monkey turkey hotkey key_count
password_length password_policy password_required min_password_length has_password is_secret
hide_password show_password password_url password_reset_url password_field secret_name secret_arn
secret_path session_count sessions session_length session_name auth_type auth_url auth_method
authored authentic authentication_method oauth oauth_url authorization_url authorization_endpoint
cookie_policy cookie_name accept_cookies passed passes passing pass_rate compass bypass passenger
passport_number boarding_pass user username user_id id name url host port path file
private_key_path password_file token_file api_key_id access_key_id client_id tenant_id account_id
description text title code status_code error_code country_code zip_code hash sha256 etag signature
phrase string connection connections credential_type credentials_url missing_token invalid_token
uses_auth requires_auth no_auth PWD OLDPWD cwd cursor next limit offset version conversation_id
call_id request_id trace_id fingerprint checksum salt nonce state scope grant_type expires_in
refresh_token_expires_in access_token_url token_expires_at value data _ 42
"""
SECRET, SHOWN = _SECRET.split(), _SHOWN.split()


@pytest.mark.parametrize("name", SECRET)
def test_names_of_secrets(name: str) -> None:
    """D20: what stands under such a key is hidden, however the key is spelled."""
    assert is_secret_key(name)
    assert redact({name: "x1"}) == {name: HIDDEN}


@pytest.mark.parametrize("name", SHOWN)
def test_names_of_other_things(name: str) -> None:
    """D20: a key that only looks a little like one stays visible."""
    assert not is_secret_key(name)
    assert redact({name: "x1"}) == {name: "x1"}


@pytest.mark.parametrize("name", SECRET)
def test_every_name_is_looked_for_in_texts(name: str) -> None:
    """A text is not looked at when none of the hints is in it: no name goes without one."""
    assert any(hint in name.lower() for hint in HINTS) or not name.isascii()


def test_long_names() -> None:
    """A name of any length is read by its end, and is not kept in memory."""
    assert is_secret_key("a_" * 100_000 + "password")
    assert not is_secret_key("password_" * 100_000 + "count")


def test_no_name() -> None:
    """A key without a word in it names nothing."""
    assert not is_secret_key("")
    assert not is_secret_key("---")
    assert not is_secret_key("value_of_text_data")
