"""How does the picture of the first minute come about? Run as a program, it is drawn anew.

Everything in it is what the program prints: a file, a call, a call with a mistake, and what the
demo says of calls that wait.
"""

from __future__ import annotations

import io
import os
import re
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

from tests import warm
from tests.documents.examples import FILE_NAME

ROOT = Path(__file__).parents[2]
PICTURE = ROOT / "docs" / "pictures" / "first-minute.svg"
WIDTH = 96
DRAWN = """\
<svg viewBox="0 0 {terminal_width} {terminal_height}" xmlns="http://www.w3.org/2000/svg">
<title>A tool file, a call, a misspelled argument with its cure, and why a call waits</title>
<style>
.{unique_id}-matrix {{ font: {char_height}px ui-monospace, Menlo, Consolas, monospace; }}
{styles}
</style>
<rect width="100%" height="100%" rx="8" fill="#1b1f27"/>
<g transform="translate({terminal_x}, 24)" clip-path="none">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g></g>
</svg>
"""
"""Without letters or addresses from elsewhere."""


def run(folder: Path, *words: str) -> str:
    """Return what a command prints on a terminal with colours."""
    env = {**os.environ, "FORCE_COLOR": "1", "COLUMNS": str(WIDTH), "PYTHONPATH": str(ROOT)}
    ended = warm.run(["-m", "tool_engine.cli", "--records", "none", *words], cwd=folder, env=env)
    return (ended.stdout + ended.stderr).strip("\n")


def find_definition() -> str:
    """Return the first file of the README."""
    text = (ROOT / "README.md").read_text("utf-8")
    block = text.split("```yaml\n", 1)[1].split("```", 1)[0]
    return FILE_NAME.sub("", block)


def draw_picture(folder: Path) -> str:
    definition = find_definition()
    (folder / "tools").mkdir()
    (folder / "tools" / "calculator.yaml").write_text(definition, "utf-8")
    console = Console(record=True, width=WIDTH, file=io.StringIO())
    shown = definition.split("examples:", 1)[0].rstrip()
    console.print(Text("$ cat tools/calculator.yaml", "bold green"))
    for line in shown.splitlines():
        text = Text(line)
        text.truncate(WIDTH, overflow="ellipsis")
        text.highlight_regex(r"(?m)^[ -]*[a-z_]+:", "cyan")
        console.print(text)
    for words in (
        ["call", "calculator", "expression=2 * (3 + 4)"],
        ["call", "calculator", "expresion=2 * (3 + 4)"],
    ):
        typed = " ".join(f"'{each}'" if " " in each else each for each in words)
        console.print(Text(f"\n$ tool-engine {typed}", "bold green"))
        console.print(Text.from_ansi(run(folder, *words)))
    console.print(Text("\n$ tool-engine demo   # from its fifth step", "bold green"))
    demo = Text.from_ansi(run(folder, "demo")).split("\n")
    begin = next(at for at, line in enumerate(demo) if "what the engine said" in line.plain)
    end = next(at for at, line in enumerate(demo) if line.plain.strip().startswith("0 s"))
    for said in demo[begin : end + 1]:
        said.rstrip()
        console.print(said)
    drawn = console.export_svg(title="", code_format=DRAWN, unique_id="first-minute")
    return re.sub(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', _add_margins, drawn, count=1)


def _add_margins(found: re.Match[str]) -> str:
    return f'viewBox="0 0 {float(found[1]) + 18:.0f} {float(found[2]) + 48:.0f}"'


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        PICTURE.write_text(draw_picture(Path(made)), "utf-8")
    print(PICTURE.relative_to(ROOT))
