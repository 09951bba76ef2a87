"""Is a value hidden behind the name of a secret in a text, and prose left alone?"""

from __future__ import annotations

import pytest

from tool_engine.redaction import redact_text

H = "[hidden]"
PAIRS = {
    "password=hunter2": f"password={H}",
    "PASSWORD=hunter2; x": f"PASSWORD={H}; x",
    "pwd=x&y=1": f"pwd={H}&y=1",
    "/p?access_token=abc&z=1": f"/p?access_token={H}&z=1",
    "Server=x;Password=hu;Database=y": f"Server=x;Password={H};Database=y",
    "AccountName=a;AccountKey=abc==;EndpointSuffix=x": (
        f"AccountName=a;AccountKey={H};EndpointSuffix=x"
    ),
    '{"password": "hun\\"ter2"}': f'{{"password": "{H}"}}',
    '{\\"password\\": \\"hunter2\\"}': f'{{\\"password\\": \\"{H}\\"}}',
    "{'password': 'hunter2'}": f"{{'password': '{H}'}}",
    '{"pin_code": 1234}': f'{{"pin_code": {H}}}',
    "LogIn(password='hunter2', x=1)": f"LogIn(password='{H}', x=1)",
    "password: hunter2": f"password: {H}",
    "wrong password: hunter2 was sent": f"wrong password: {H} was sent",
    "x:\n  api_key: abcdef\n": f"x:\n  api_key: {H}\n",
    "password = hunter2": f"password = {H}",
    "x\npassword = swordfish\ny": f"x\npassword = {H}\ny",
    "token => 'abc'": f"token => '{H}'",
    "api_key := `abc`": f"api_key := `{H}`",
    "export DB_PASS=hunter2": f"export DB_PASS={H}",
    "run --password hunter2 --x": f"run --password {H} --x",
    "run --password=hunter2": f"run --password={H}",
    "run --password 'hunter2' x": f"run --password '{H}' x",
    "['--api-key', 'hunter2']": f"['--api-key', '{H}']",
    "curl -u bob:hunter2 http://x": f"curl -u bob:{H} http://x",
    "curl -H 'X-Api-Key: abcdef' x": f"curl -H 'X-Api-Key: {H}' x",
    "Authorization: Bearer abc": f"Authorization: Bearer {H}",
    "Authorization: abcdef": f"Authorization: {H}",
    'x\nAuthorization: Digest username="x", response="abc"\ny': f"x\nAuthorization: {H}\ny",
    "-H 'Authorization: Basic abc' x": f"-H 'Authorization: Basic {H}' x",
    "Cookie: a=b; c=d": f"Cookie: {H}",
    '{"Authorization": "Bearer abc"}': f'{{"Authorization": "Bearer {H}"}}',
    "密码: hunter22": f"密码: {H}",
    'password="never closed': f'password="{H}',
    "令牌: abc123": f"令牌: {H}",
    "访问令牌=abc123": f"访问令牌={H}",
    "password: |\n  hunter2\nuser: a": f"password: |\n  {H}\nuser: a",
    "a:\n  password: >-\n    one\n\n    two\n  b: c": f"a:\n  password: >-\n    {H}\n  b: c",
    "- token: |+2 # x\r\n    abc\r\n- a": f"- token: |+2 # x\r\n    {H}\n- a",
    "<password>hunter2</password>": f"<password>{H}</password>",
    '<ns:apiKey type="x">a b</ns:apiKey>': f'<ns:apiKey type="x">{H}</ns:apiKey>',
    "<token><![CDATA[abc]]></token>": f"<token><![CDATA[{H}></token>",
    '<add key="ApiKey" value="abc"/>': f'<add key="ApiKey" value="{H}"/>',
    '<entry name="password">abc</entry>': f'<entry name="password">{H}</entry>',
    "(password=hunter2)": f"(password={H})",
    "<input name='password' value='abc'>": f"<input name='password' value='{H}'>",
    '<input type="text" name="password" value="abc">': (
        f'<input type="text" name="password" value="{H}">'
    ),
    "password = '''\nabc\n'''\nx = 1": f"password = '''{H}'''\nx = 1",
    'password = """abc"d"""': f'password = """{H}"""',
    "token = '''never closed": f"token = '''{H}",
    "| password | hunter2 |": f"| password | {H} |",
    "| id | password | abc123 | 5 |": f"| id | password | {H} | 5 |",
    "|**API key**|`abc123`|": f"|**API key**|`{H}`|",
}
SHOWN = [
    "token: the one you got",
    "'password' must be at least 8 characters",
    "missing required parameter 'token' (string)",
    "max_tokens=500 next_page_token=abc",
    "password=None, token=null, secret: true, api_key=''",
    "password=${env:DB_PASSWORD}",
    "password={password} token=<token> secret=*** key=%s",
    "token=$TOKEN",
    "token = get_token()",
    "api_key=os.environ['X']",
    "WHERE password = :password",
    "def f(token: str = None)",
    "author: me1234567, secretary=jane",
    "| password | the password of the user, 8 letters |",
    "| token | count |\n|---|---|\n| max_tokens | 4096 |",
    "<b>password</b> 5 > 4",
    "password = '' and token = \"\"",
    "error: invalid token: expired",
    "pass: 3 fail: 1",
    "authorization: you need to log in to read this",
    "the cookie: a chocolate one",
    "see https://example.com/auth?next=/x",
    "run --password-stdin --token-file x.txt --password",
    "run --token --x",
    "docker run -u 1000:1000 x",
    "curl -u 1000:1000 x",
    "password=[hidden]",
    "password: [hidden].",
    "password:",
    "key = value",
    "<user>bob</user> <tokens>5</tokens>",
    "<password>\n  <x>1</x></password>",
    "token: |\nnext: line",
    '<add key="Colour" value="red"/>',
]


@pytest.mark.parametrize("text", PAIRS)
def test_pairs(text: str) -> None:
    """D20: a value is hidden behind its name, and hiding it again changes nothing."""
    assert redact_text(text) == PAIRS[text]
    assert redact_text(PAIRS[text]) == PAIRS[text]


@pytest.mark.parametrize("text", SHOWN)
def test_prose_and_code(text: str) -> None:
    """D20: sentences about a secret, stand-ins for one and code stay to be read."""
    assert redact_text(text) == text
