"""Does the machinery that runs documents find what is wrong with one?"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.documents.examples import DocumentRun, ExampleError

GOOD = """# A page

```yaml
# tools/hello.yaml
name: hello
```

```python
import asyncio
from pathlib import Path

loop = asyncio.get_running_loop()
text = await asyncio.to_thread(Path("tools/hello.yaml").read_text)
print(text.splitlines()[1], "and more")
```

```output
name: hello ...
```

```python
assert asyncio.get_running_loop() is loop  # one loop for the page

hidden_later = None

def decorated(value: int) -> int:
    return value + 1
```

```python
# app.py
import asyncio

async def main():
    print(2)

if __name__ == "__main__":
    asyncio.run(main())
```

```console
$ python app.py
```

```output
2
```

```python
import app

asyncio.iscoroutinefunction(app.main)
```

```python
# service.py
from http.server import HTTPServer, SimpleHTTPRequestHandler

if __name__ == "__main__":
    HTTPServer(("127.0.0.1", 8700), SimpleHTTPRequestHandler).serve_forever()
```

<!-- second-terminal: 8700 -->

```console
$ python service.py
```

```console
$ export SERVICE=http://127.0.0.1:8700
```

```python
import os
import urllib.request

def fetch(url):
    with urllib.request.urlopen(url) as answer:
        return answer.status

print(await asyncio.to_thread(fetch, os.environ["SERVICE"] + "/app.py"))
```

```output
200
```

```console
$ make run
anything
$ cat app.py \\
    tools/hello.yaml
$ test -e missing  # exit 1
$ echo done
```

```output
...
done
```

<!-- skip: next -->

```python
raise RuntimeError("skipped")
```

<!-- skip: next if(hidden_later is None, reason="conditional") -->

```python
raise RuntimeError("skipped")
```

<!-- invisible-code-block: python
hidden, loop = 1, None
os.environ["HIDDEN"] = "x"
Path("hidden.txt").write_text("")
-->

<!-- invisible-code-block: python
assert hidden == 1
assert (folder / "app.py").exists()
-->

Before: work in a clone of the project.

<!-- copy: data -->

```{code-block} python
:caption: a directive
assert "hidden" not in globals() and "HIDDEN" not in os.environ and loop is not None
assert not Path("hidden.txt").exists()
assert Path("data/x.txt").read_text() == "copied"
```

```yaml
fragment: of a file
```

```
no language: a picture
```
"""


def run(text: str, folder: Path) -> int:
    page = folder / "page.md"
    page.write_text(text, encoding="utf-8")
    (folder / "data").mkdir()
    (folder / "data" / "x.txt").write_text("copied")
    work = folder / "work"
    work.mkdir()
    return DocumentRun(page, folder, work).run()


def test_good_page(tmp_path: Path) -> None:
    """Files are written, code and commands run in order, what is hidden runs, skips are skipped."""
    assert run(GOOD, tmp_path) == 25
    assert (tmp_path / "work" / "app.py").read_text().startswith("# app.py\n")


@pytest.mark.parametrize(
    ("block", "message"),
    [
        ("```python\nx = 1\nraise KeyError(x)\n```", r"page\.md:3: line 5: KeyError: 1"),
        ("```python\nawait missing()\n```", r"line 4: NameError"),
        ("```python\nx = = 1\n```", "SyntaxError"),
        ("```python\nfor x in []:\n    pass\nx = 1\n```", r"line 6: invalid syntax: the prompt"),
        ("```python\nclass A:\n    x = 1\n\n    y = 2\n```", r"line 7: unexpected indent"),
        ("```python\ndef f():\n    x = 1\n\n    return x\n```", r"line 7: unexpected indent"),
        ("```python\nx = [\n    1,\n```", r"line 4: the statement has no end"),
        ("```python\nimport asyncio\nasyncio.run(None)\n```", "running event loop"),
        ("```python\n# a.py\nx = 1\n```\n```python\nx\n```", "NameError: name 'x'"),
        ("```python\nprint(1)\n```\n```output\n2\n```", r"page\.md:6: expected\n2"),
        ("```yaml\na: [\n```", "ParserError"),
        ("```console\n$ echo out; false\n```", "ended with 1, not 0:\nout"),
        ("```bash\n$ true # exit 2\n```", "ended with 0, not 2"),
        ("<!-- invisible-code-block: python\nx = 1\n-->\n```python\nx\n```", "NameError: name 'x'"),
        ("<!-- invisible-code-block: python\nassert 0\n-->", "AssertionError"),
        ("<!-- copy: data -->", "needs 'data', and does not tell its reader"),
        (
            "```python\nimport asyncio\nt = asyncio.create_task(asyncio.sleep(60))\n```",
            "leave tasks behind",
        ),
    ],
)
def test_bad_page(block: str, message: str, tmp_path: Path) -> None:
    """What fails is named with the page and the line of the page."""
    with pytest.raises(ExampleError, match=message):
        run(f"# Page\n\n{block}\n", tmp_path)
