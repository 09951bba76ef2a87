"""What the sandbox of `run_shell_command` must not break: the programs that scripts are made of."""

from __future__ import annotations

import shutil
import textwrap
from pathlib import Path

import pytest

from tests.security.shell_cell import PYTHON, Cell
from tool_engine.executors.commands.sandbox_launcher import find_obstacle

pytestmark = pytest.mark.skipif(bool(find_obstacle()), reason=find_obstacle() or "it can")

ORDINARY = {
    "files": r"""
        touch new file; touch -d 2001-01-01 new; cp -p file b; cp -a file c; mv b d; ln -s d e
        ln d f; chmod 700 d; mkfifo p; install file z; truncate -s 5 z; split -b 2 z
        ls -la > /dev/null; du -s . > /dev/null; find . -type f | xargs stat > /dev/null
        dd if=file of=y bs=1 count=3 2>&1 | grep -q copied; sync
        rm -r x* y z p f e d; ls | tr '\n' ' '
    """,
    "texts": r"""
        sed -i s/text/word/ file; awk '{print $1}' file; grep -rc word .; echo >> file
        sort -u file | tee copy | wc -l; diff file copy; head -c4 file | sha256sum | cut -c1-4
        printf 'a\nb\n' | xargs -n1 echo
    """,
    "tar": """
        mkdir d o; echo hi > d/f; tar czf a.tgz d; tar xzf a.tgz -C o; cat o/d/f
        gzip d/f; gunzip d/f.gz
    """,
    "git": """
        git init -q r; cd r; echo a > a; git add a
        git -c user.name=a -c user.email=a@b commit -qm one; git checkout -q -b x; echo b >> a
        git diff --stat; git log --oneline | wc -l; git gc -q; git status -s
    """,
    "gcc": r"""printf '#include <stdio.h>\nint main(){puts("hi");}' > a.c; gcc a.c -o a; ./a""",
    "make": r"""
        printf 'all: b\nb: file\n\tcp file b\n' > Makefile; make; make -q && echo made
    """,
    "sqlite3": """
        sqlite3 a.db 'create table t(a); insert into t values(1),(2); select sum(a) from t; vacuum'
        sqlite3 a.db 'pragma journal_mode=wal; insert into t values(5); select count(*) from t'
    """,
    "bash": """
        bash -c 'for i in 1 2; do echo $i & wait; done; cat <(echo hi); read a <<< ok; echo $a'
    """,
    "perl": """perl -e 'open(F, ">pp"); print F 1; close F; system("ls pp")'""",
    "node": """
        echo 'const {fork, execSync} = require("child_process"); console.log("" + execSync("ls"))
        const {Worker} = require("worker_threads")
        setTimeout(() => new Worker("console.log(3)", {eval: true}), 9)
        const child = fork("child.js")
        child.on("message", m => console.log(m)); child.send(4)' > main.js
        echo 'process.on("message", m => {process.send(m + 1); process.exit()})' > child.js
        node main.js
    """,
}


@pytest.fixture
def cell(tmp_path: Path) -> Cell:
    return Cell(tmp_path)


@pytest.mark.parametrize("program", ORDINARY)
async def test_ordinary_programs(cell: Cell, program: str) -> None:
    """What is used every day works, and does not complain; where modes cannot be set, some do."""
    needed = {"files": "cp", "texts": "sed"}.get(program, program)
    if shutil.which(needed, path="/usr/bin:/bin") is None:
        pytest.skip(f"there is no {needed}")
    output = await cell.run(f"set -e; {ORDINARY[program]}")
    if output["stderr"] and not await has_mounts(cell):
        pytest.skip("the sandbox has no mounts of its own here")
    assert (output["stderr"], output["exit_code"]) == ("", 0), output
    assert output["stdout"]


async def has_mounts(cell: Cell) -> bool:
    return bool((await cell.run("chmod 600 file"))["exit_code"] == 0)


async def test_ordinary_python(cell: Cell) -> None:
    """Tasks, threads, processes, pipes, databases and archives of Python's own library work."""
    code = """
        import asyncio, multiprocessing, sqlite3, subprocess, tempfile, zipfile, socket

        def work(end):
            end.send(7)

        async def main():
            child = await asyncio.create_subprocess_exec(
                "cat", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            print((await child.communicate(b"x"))[0], await asyncio.to_thread(lambda: 5))

        if __name__ == "__main__":
            asyncio.run(main())
            for name in ("fork", "spawn"):
                many = multiprocessing.get_context(name)
                mine, other = many.Pipe()
                child = many.Process(target=work, args=(other,))
                child.start()
                print(name, mine.poll(10) and mine.recv())
                child.join()
            one, two = socket.socketpair()
            one.sendmsg([b"a"])
            one.send(b"b")
            print(two.recv(1), two.recvmsg(1)[0])
            with tempfile.TemporaryDirectory() as folder:
                with zipfile.ZipFile(f"{folder}/z", "w") as archive:
                    archive.write("file")
                zipfile.ZipFile(f"{folder}/z").extractall(folder)
            with sqlite3.connect("p.db") as database:
                database.execute("create table t(a)")
    """
    assert (await cell.python(code)).split("\n") == [
        "b'x' 5", "fork 7", "spawn 7", "b'a' b'b'", "",
    ]  # fmt: skip


async def test_ordinary_network(cell: Cell) -> None:
    """With `network: true` programs dial, are dialled and look names up."""
    if shutil.which("curl", path="/usr/bin:/bin") is None:
        pytest.skip("there is no curl")
    code = """
        import asyncio, http.server, subprocess, threading, socket
        server = http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = "http://localhost:%s/file" % server.server_port
        print(subprocess.run(["curl", "-s", url], capture_output=True).stdout.decode())
        out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        into = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        into.bind(("127.0.0.1", 0))
        out.sendto(b"datagram", into.getsockname())
        print(into.recv(20))
        server.shutdown()
    """
    (cell.folder / "work" / "code.py").write_text(textwrap.dedent(code))
    output = await cell.run(f"{PYTHON} -I code.py 2> log {cell.tag}", network=True)
    assert output["stdout"] == "text of work\nb'datagram'\n"
