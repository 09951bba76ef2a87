"""What people get wrong in a project has place, cause and a cure that works.

A row is the files as they are got wrong, a command, what its message says in this order, and what
the message asks for: the files, and the command where that is another. Mistakes in the words of a
command line, and in tool files alone, stand in `tests/contracts/test_mistakes_*.py`.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from tests.cli.recorded import record_calls
from tests.cli.said import say
from tests.ports import free_port
from tests.rights import without_root

TRIED = {
    "executors/python/handler_source.py: correct it there",
    "executors/calculator.py: declare it, with required: true",
}
"""Cures of code that rows here try, for `tests/contracts/test_every_cure.py`."""
HEAD = "name: {}\ndescription: Does it.\neffect: read\n"
Q = "parameters:\n  - {name: q, type: string, required: true, description: What}\n"
SIDES = """parameters:
  - {name: a, type: integer, required: true, description: One}
  - {name: b, type: integer, required: true, description: Other}
"""
ECHO = f"{HEAD.format('echo')}{Q}entry: {{type: builtin, handler: echo}}\n"
SUMS = "def add(a, b): return a + b\n"
OURS, OWN = "[tool.tool-engine]\n", "pyproject.toml"
MODULES = ("sums", "app", "sumz")


def add(handler: str, kind: str = "python") -> dict[str, str]:
    entry = f"entry: {{type: {kind}, handler: {handler}}}\n"
    return {"tools/add.yaml": f"{HEAD.format('add')}{SIDES}{entry}"}


def get(url: str, allow: str = "", headers: str = "") -> dict[str, str]:
    text = f"{HEAD.format('get')}{Q}entry:\n  type: http\n  request:\n    url: '{url}/{{q}}'\n"
    text += f"    headers: {{Authorization: '{headers}'}}\n" if headers else ""
    return {"tools/get.yaml": f"{text}  allow: ['{allow}']\n" if allow else text}


def command(argv: str) -> dict[str, str]:
    entry = f"entry: {{type: builtin, handler: run_command, argv: {argv}}}\n"
    return {"tools/cmd.yaml": f"{HEAD.format('cmd')}{Q}{entry}"}


def query(sql: str, source: str = "shop") -> dict[str, str]:
    entry = f"entry: {{type: builtin, handler: sql_query, source: {source}, sql: '{sql}'}}\n"
    return {"tools/ask.yaml": f"{HEAD.format('ask')}{Q}{entry}"}


def reading(root: str) -> dict[str, str]:
    entry = f"entry: {{type: builtin, handler: read_file, root: {root}}}\n"
    text = Q.replace("name: q", "name: path")
    return {"tools/rd.yaml": f"{HEAD.format('rd')}{text}{entry}", "data/x.txt": "1"}


def calculate(name: str) -> dict[str, str]:
    text = f"{HEAD.format('sum')}{Q}entry: {{type: builtin, handler: calculator}}\n"
    return {"tools/sum.yaml": text.replace("name: q", f"name: {name}")}


def echo(more: str = "") -> dict[str, str]:
    return {"tools/echo.yaml": f"{ECHO}{more}"}


def ours(settings: str, table: str = "") -> dict[str, str]:
    return {**echo(), OWN: f"{OURS[:-2]}{table}]\n{settings}\n"}


ADD, ECHOED, GOT, RUN, ASK = (
    "call add a=1 b=2", "call echo q=hi", "call get q=x", "call cmd q=.", "call ask q=x",
)  # fmt: skip
Files = dict[str, str]
MISTAKES: list[tuple[Files, str, list[str], Files | None, str | None]] = [
    # A Python function
    (add("sumss:add"), ADD, ["tools/add.yaml:7:32", "no module 'sumss'", "did you mean 'sums'"],
     add("sums:add"), None),
    (add("sums:ad"), ADD, ["tools/add.yaml:7:32", "no function 'ad'", "did you mean 'add'"],
     add("sums:add"), None),
    (add("sums.py:add"), ADD, ["no module 'sums.py'", "without the end of its file: 'sums'"],
     add("sums:add"), None),
    (add("sums.add"), ADD, ["executor 'sums.add'", "did you mean 'sums:add'"],
     add("sums:add"), None),
    (add("add"), ADD, ["executor 'add'", "write a function of a module as module:function"],
     add("sums:add"), None),
    ({**add("sumz:add"), "src/sumz.py": SUMS}, ADD,
     ["no module 'sumz'", "src has it: write `tool-engine --path src ...`"], {},
     f"--path src {ADD}"),
    ({**add("sumz:add"), "tools/sumz.py": SUMS}, ADD,
     ["no module 'sumz'", "tools has it: write `tool-engine --path tools ...`"], {},
     f"--path tools {ADD}"),
    ({**add("sums:add"), "sums.py": f"import requestz\n{SUMS}"}, ADD,
     ["sums cannot be imported: ModuleNotFoundError", "'requestz'", "or correct the import"],
     {"sums.py": SUMS}, None),
    ({**add("sums:add"), "sums.py": f"1 / 0\n{SUMS}"}, ADD,
     ["sums cannot be imported: ZeroDivisionError", "correct the module"],
     {"sums.py": SUMS}, None),
    ({**add("sums:add"), "sums.py": SUMS.replace("):", ")")}, ADD,
     ["line 1 of the module 'sums' is no valid Python", "correct it there"],
     {"sums.py": SUMS}, None),
    ({**add("sums:add"), "sums.py": SUMS.replace("b)", "c)").replace("+ b", "+ c")}, ADD,
     ["parameter 'b'; it takes (a, c)", "give both the same names"], {"sums.py": SUMS}, None),
    ({**add("sums:add"), "sums.py": "add = 3\n"}, ADD,
     ["sums:add is the value 3", "name a function of the module"], {"sums.py": SUMS}, None),
    ({**add("sums:add"), "sums.py": SUMS.replace("a + b", "object()")}, ADD,
     ["no form in JSON", "return text, numbers"], {"sums.py": SUMS}, None),
    (add("sums:add", "pyton"), ADD, ["tools/add.yaml:7:15", "did you mean 'python'"],
     add("sums:add"), None),
    # An API
    (get("<site>"), GOT, ["is not a public address", "entry.allow: ['<place>']"],
     get("<site>", "<place>"), None),
    (get("<closed>", "127.0.0.1:*"), GOT,
     ["cannot connect to 127.0.0.1:", "refused", "correct the URL"],
     get("<site>", "127.0.0.1:*"), None),
    (get("http://no-such-host.invalid"), GOT, ["'no-such-host.invalid' cannot be resolved",
     "correct the URL"], get("<site>", "127.0.0.1:*"), None),
    (get("<place>", "<place>"), GOT, ["tools/get.yaml:9:10", "write http"],
     get("<site>", "<place>"), None),
    (get("<site>", "127.0.0.1"), GOT, ["'127.0.0.1' is not host:port", "write '127.0.0.1:*'"],
     get("<site>", "127.0.0.1:*"), None),
    (get("<site>", "<site>/x"), GOT, ["is not host:port", "write '<place>'"],
     get("<site>", "<place>"), None),
    (get("<site>", "<place>", "Bearer ${TOKN}"), GOT,
     ["'${TOKN}' is not a placeholder", "write ${env:NAME}"],
     get("<site>", "<place>", "Bearer ${env:HOME}"), None),
    (get("<site>", "<place>", "Bearer ${env:NO_SUCH_TOKEN}"), GOT,
     ["NO_SUCH_TOKEN is not set", "set it before the engine starts"],
     get("<site>", "<place>", "Bearer ${env:HOME}"), None),
    # A program
    (command('"ls {q}"'), RUN, ["tools/cmd.yaml:6:", 'write it as a list: [ls, "{q}"]'],
     command('[ls, "{q}"]'), None),
    (command('[lss, "{q}"]'), RUN, ["the program 'lss' is not installed", "entry.argv[0]"],
     command('[ls, "{q}"]'), None),
    (command('[./ls, "{q}"]'), RUN, ["entry.argv[0]: './ls'", "or a bare name"],
     command('[ls, "{q}"]'), None),
    (command('[ls, "$q"]'), RUN, ["never uses the parameter 'q'", "in place of $q as {q}"],
     command('[ls, "{q}"]'), None),
    # A database
    (query("SELECT :q AS q", "shopp"), ASK,
     ["entry.source: the engine has no source 'shopp'", "did you mean 'shop'"],
     query("SELECT :q AS q"), None),
    (query("SELECT :q AS q", "other"), ASK, ["no source 'other'", "--source other=sqlite:///"], {},
     "--source other=sqlite:///shop.db call ask q=x"),
    (query("SELECT {q} AS q"), ASK, ["tools/ask.yaml:6:", "for a value write :q"],
     query("SELECT :q AS q"), None),
    (query("SELECT :name AS q"), ASK, ["takes :name", "declare it under parameters"],
     query("SELECT :q AS q"), None),
    (query("SELECT :q FROM orders"), ASK, ["no such table: orders"],
     query("SELECT :q FROM tool_calls"), None),
    # Files
    (reading("data"), "call rd path=x.txt", ["(No such file or directory), counted from that of",
     "correct entry.root"], reading("../data"), None),
    (reading("../data"), "call rd path=../tools/rd.yaml", ["has '..' in it", "from the tool's"],
     {}, "call rd path=x.txt"),
    (calculate("q"), "call sum q=1+1", ["takes the parameter 'expression'", "declare it, with"],
     calculate("expression"), "call sum expression=1+1"),
    # Where files lie
    ({"echo.yaml": ECHO}, ECHOED, ["'echo.yaml' is not read: move it into tools"], echo(), None),
    ({"tools/echo.txt": ECHO}, ECHOED, ["'echo.txt'", "rename it to 'echo.yaml'"], echo(), None),
    ({"tools/own/other.yaml": ECHO}, ECHOED, ["some in tools/own: write `tool-engine --recursive"],
     {}, f"--recursive {ECHOED}"),
    ({**echo(), "tools/own/in.yaml": ECHO.replace("echo", "inner", 1)}, "call inner q=hi",
     ["no tool 'inner'", "'tools/own/in.yaml' is not read: write `tool-engine --recursive ...`"],
     {}, "--recursive call inner q=hi"),
    ({**echo(), "tools/own/in.yaml": ECHO.replace("echo", "inner", 1)}, "show inner",
     ["no tool 'inner'", "'tools/own/in.yaml' is not read: write `tool-engine --recursive ...`"],
     {}, "--recursive show inner"),
    ({**echo(), "tools/again.yaml": ECHO}, ECHOED,
     ["tools/", "the tool 'echo' is also defined in tools/", "rename or remove one"],
     {"tools/again.yaml": ECHO.replace("echo", "again", 1)}, None),
    (echo(), "echo q=hi", ["no command 'echo'", "write `tool-engine call echo ...`"], {}, ECHOED),
    (echo(), "tools/echo.yaml", ["write `tool-engine validate tools/echo.yaml`"], {},
     "validate tools/echo.yaml"),
    # A definition
    (echo("\trate: 5/s\n"), ECHOED, ["tools/echo.yaml:7:1", "indent with spaces"],
     echo("rate: 5/s\n"), None),
    (echo("effect: write\n"), ECHOED, ["echo.yaml:7:1", "given on line 3", "remove one"],
     echo(), None),
    (echo("timout: 5\n"), ECHOED, ["echo.yaml:7:1", "unknown key", "did you mean 'timeout'"],
     echo("timeout: 5\n"), None),
    (echo("timeout: 5 minutes\n"), ECHOED, ["echo.yaml:7:10", "write a plain number"],
     echo("timeout: 300\n"), None),
    (echo("rate: 10/sec\n"), ECHOED, ["echo.yaml:7:7", "write it as 10/s"],
     echo("rate: 10/s\n"), None),
    (echo("require_confirmation: auto\n"), ECHOED, ["echo.yaml:7:1", "did you mean 'permission'"],
     echo("permission: auto\n"), None),
    (echo("tests: [{name: it, params: {qq: a}, expect: {q: a}}]\n"), "test",
     ["echo.yaml:7", "'qq'", "did you mean 'q'"],
     echo("tests: [{name: it, params: {q: a}, expect: {q: a}}]\n"), None),
    # Settings, and what they name
    (ours('locks = "off"'), ECHOED, ["pyproject.toml:2:1", "did you mean 'lock'"],
     ours('lock = "off"'), None),
    (ours('lock = "enforced"'), ECHOED, ["pyproject.toml:2:1", "did you mean 'enforce'"],
     ours('lock = "off"'), None),
    (ours("lock = off"), ECHOED, ["pyproject.toml:2:8 is no TOML", "write values"],
     ours('lock = "off"'), None),
    (ours("max_concurent = 5", ".concurrency"), ECHOED,
     ["pyproject.toml:2:1", "did you mean 'max_concurrent'"],
     ours("max_concurrent = 5", ".concurrency"), None),
    (ours('main = "main.db"', ".sources"), ECHOED,
     ["pyproject.toml:2:1", "write sqlite:///main.db"],
     ours('main = "sqlite:///main.db"', ".sources"), None),
    (ours('comand = "x"', ".mcp_servers.x"), ECHOED, ["x.comand", "did you mean 'command'"],
     ours('command = "x"', ".mcp_servers.x"), "list"),
    (ours('lock = "enforce"'), ECHOED, ["'echo' is quarantined", "with `tool-engine lock`"],
     {}, f"lock && {ECHOED}"),
    ({**echo(), "tools.lock": "{"}, "lock --check",
     ["tools.lock is no lock file", "write it anew with `tool-engine lock`"], {},
     "lock && lock --check"),
    ({**echo(), "app.py": "from tool_engine import ToolEngine\nengine = ToolEngine()\n"},
     "test --app app:engin", ["no 'engin' in app", "did you mean 'engine'"], {},
     "test --app app:engine"),
    ({**echo(), "talk.yaml": "replies: [{txt: Yes.}]\n"}, "chat --script talk.yaml hi",
     ["talk.yaml", "replies[0]", "did you mean 'text'"],
     {"talk.yaml": "replies: [{text: Yes.}]\n"}, None),
    ({**echo(), "talk.yaml": "replies: [{calls: [{tool: echo}]}, {text: Yes.}]\n"},
     "chat --script talk.yaml hi", ["talk.yaml", "replies[0].calls[0]", "there are: name"],
     {"talk.yaml": "replies: [{calls: [{name: echo, arguments: {q: a}}]}, {text: Yes.}]\n"}, None),
    (echo(), "--records postgresql://u:p@127.0.0.1:9/x history",
     ["127.0.0.1:9/x' cannot be read: Conn", "start the database, or correct its URL"], {},
     "--records sqlite:///calls.db history"),
    (echo(), "--cluster sqlite:///x.db call echo q=hi", ["--cluster", "must begin with postgresql"],
     {}, "--cluster none call echo q=hi"),
    (echo(), "serve --no-auth --port <taken>", ["127.0.0.1:<taken>", "in use", "a free port"],
     None, None),
    (echo(), "serve --token-file none.yaml", ["'none.yaml' cannot be read", "check its name"],
     None, None),
    ({**echo(), "tokens.yaml": "secret"}, "serve --token-file tokens.yaml",
     ["holds no tokens", "write a list of - {name:"], None, None),
    (echo(), "chat --model openai:gpt-5-mini hi", ["has no key", "set OPENAI_API_KEY"], None, None),
    (echo(), "history --status failed", ["no option '--status'", "did you mean '--failed'"], {},
     "--records sqlite:///calls.db history --failed"),
    (echo(), "mcp install --client vscode", ["no option '--client'", "write 'vscode' without it"],
     {}, "mcp install vscode"),
]  # fmt: skip


class Answer(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"here")

    def log_message(self, *args: object) -> None:
        """Nothing is printed into what the tests read."""


@pytest.fixture(scope="module")
def ports() -> Iterator[dict[str, str]]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        place = f"127.0.0.1:{server.server_port}"
        yield {
            "site": f"http://{place}",
            "place": place,
            "taken": str(server.server_port),
            "closed": f"http://127.0.0.1:{free_port()}",
        }
        server.shutdown()
        thread.join()


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty project with a database, and a module of functions."""
    monkeypatch.chdir(tmp_path)
    for name in ("TOOLS", "RECORDS", "LOCK"):
        monkeypatch.delenv(f"TOOL_ENGINE_{name}", raising=False)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("TOOL_ENGINE_SOURCES", "shop=sqlite:///calls.db")
    monkeypatch.setattr("sys.path", list(sys.path))
    (tmp_path / "tools").mkdir()
    (tmp_path / "sums.py").write_text(SUMS)
    record_calls(tmp_path)
    (tmp_path / "shop.db").touch()
    forget_modules()
    yield tmp_path
    forget_modules()


def forget_modules() -> None:
    """Each command is another process, where a reader types it."""
    for name in MODULES:
        sys.modules.pop(name, None)
    importlib.invalidate_caches()


def write(project: Path, files: Files, ports: dict[str, str]) -> None:
    for name, text in files.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(fill(text, ports))


def fill(text: str, ports: dict[str, str]) -> str:
    """The text with what only the running test knows."""
    for place, value in ports.items():
        text = text.replace(f"<{place}>", value)
    return text


def said(line: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    forget_modules()
    return say(line, capsys)


def test_there_are_enough() -> None:
    """Each is another mistake."""
    assert len({repr(row[:2]) for row in MISTAKES}) == len(MISTAKES) >= 40


@pytest.mark.parametrize("row", MISTAKES, ids=[f"{row[1]}: {row[2][-1]}"[:70] for row in MISTAKES])
def test_a_mistake_has_place_cause_and_cure(
    project: Path,
    capsys: pytest.CaptureFixture[str],
    ports: dict[str, str],
    row: tuple[Files, str, list[str], Files | None, str | None],
) -> None:
    """The message says it in one sentence, and what it asks for works."""
    files, line, parts, healed, again = row
    write(project, files, ports)
    code, message = said(fill(line, ports), capsys)
    assert code in (1, 2), message
    end = -1
    for part in parts:
        end = message.find(fill(part, ports), end + 1)
        assert end >= 0, (part, message)
    if healed is None:
        return
    for name in files:
        if healed and name not in healed:
            (project / name).unlink()
    write(project, {**files, **healed} if healed else {}, ports)
    for each in (again or line).split(" && "):
        code, message = said(each, capsys)
        assert code == 0, message


@pytest.mark.parametrize("name", ["tools/echo.yaml", "tools"])
def test_no_rights(project: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    """What may not be read says which file, and chmod mends it."""
    write(project, echo(), {})
    (project / name).chmod(0)
    with without_root():
        code, message = said(ECHOED, capsys)
        assert code in (1, 2), message
        assert name in message
        assert "chmod" in message or "ermission" in message
        (project / name).chmod(0o700)
        assert said(ECHOED, capsys)[0] == 0
