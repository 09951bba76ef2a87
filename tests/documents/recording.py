"""How do the pictures of the first minute and of the demo come about? Run, this draws them anew.

Everything in them is what the program prints: a file, a call, a call with a mistake, and what the
demo says of calls that wait; and the whole demo, which rolls by from step to step.
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
DEMO = ROOT / "docs" / "pictures" / "demo.svg"
WIDTH = 96
STEP = re.compile(r"\d\. ")
ROWS = 30
"""Lines of the demo that are seen at a time."""
LINE = 24.4
"""Units of a line's height, as rich draws it."""
GLANCE = 1.5
READ = 0.25
"""Seconds for which a step is shown, and more for each of its lines."""
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
ROLLED = """\
<svg viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<title>The demo, step by step: make run</title>
<style>
.demo-matrix {{ font: 20px ui-monospace, Menlo, Consolas, monospace; }}
{styles}
@keyframes roll {{ {frames} }}
.roll {{ animation: roll {seconds:.0f}s infinite; }}
@media (prefers-reduced-motion: reduce) {{ .roll {{ animation: none; }} }}
</style>
<rect width="100%" height="100%" rx="8" fill="#1b1f27"/>
<svg x="9" y="24" width="{inner_width}" height="{inner_height}">
<g class="roll"><g class="demo-matrix">
{matrix}
</g></g></svg>
</svg>
"""


def run(folder: Path, *words: str) -> str:
    """Return what a command prints on a terminal with colours."""
    env = {
        **os.environ,
        "FORCE_COLOR": "1",
        "TTY_INTERACTIVE": "0",  # lines in place of a bar that moves
        "COLUMNS": str(WIDTH),
        "PYTHONPATH": str(ROOT),
        "TOOL_ENGINE_TOOLS": "tools",
    }
    ended = warm.run(["-m", "tool_engine.cli", "--records", "none", *words], cwd=folder, env=env)
    return (ended.stdout + ended.stderr).strip("\n")


def find_definition() -> str:
    """Return the first file of the README."""
    text = (ROOT / "README.md").read_text("utf-8")
    block = text.split("```yaml\n", 1)[1].split("```", 1)[0]
    return FILE_NAME.sub("", block)


def run_demo() -> str:
    """Return what the demo prints about the tools of this project."""
    return run(ROOT, "demo")


def draw_demo(printed: str) -> str:
    """Return a picture in which the demo rolls by; whoever wants no motion sees its beginning."""
    console = Console(record=True, width=WIDTH, file=io.StringIO())
    lines = ["$ make run", "", *printed.splitlines()]
    for line in lines:
        text = Text.from_ansi(line)
        text.rstrip()
        console.print(text)
    parts = "<!-- {styles} -->{matrix}"
    drawn = console.export_svg(title="", code_format=parts, unique_id="demo")
    styles, matrix = drawn.removeprefix("<!-- ").split(" -->", 1)
    starts = [0, *(at for at, line in enumerate(lines) if STEP.match(Text.from_ansi(line).plain))]
    frames, seconds = roll_through(starts[:1] + starts[2:], len(lines))
    width, height = WIDTH * 12.2, ROWS * LINE
    return ROLLED.format(
        width=round(width + 18),
        height=round(height + 48),
        inner_width=round(width),
        inner_height=round(height),
        styles=styles,
        matrix=re.sub(r' clip-path="[^"]*"', "", matrix),
        frames=frames,
        seconds=seconds,
    )


def roll_through(starts: list[int], total: int) -> tuple[str, float]:
    """Return the frames of an animation that rests where each step begins, and its seconds."""
    ends = [*starts[1:], total]
    rests = [GLANCE + READ * (end - start) for start, end in zip(starts, ends, strict=True)]
    seconds, at, frames = sum(rests), 0.0, []
    for start, rest in zip(starts, rests, strict=True):
        row = min(start, max(0, total - ROWS))
        move = f"transform: translateY({-row * LINE:.1f}px)"
        begin, at = at, at + rest
        last = at / seconds * 100
        frames.append(
            f"{begin / seconds * 100:.2f}%, {last - 0.8 * (last < 99.9):.2f}% {{ {move} }}"
        )
    return " ".join(frames), seconds


def draw_picture(folder: Path, printed: str) -> str:
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
    demo = Text.from_ansi(printed).split("\n")
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
    shown = run_demo()
    with tempfile.TemporaryDirectory() as made:
        PICTURE.write_text(draw_picture(Path(made), shown), "utf-8")
    DEMO.write_text(draw_demo(shown), "utf-8")
    for path in (PICTURE, DEMO):
        print(path.relative_to(ROOT))
