"""How is the picture of a call's way drawn? Each stage with what the engine promises there."""

from __future__ import annotations

import textwrap
from html import escape

STAGES = {
    "look up": "A file loads whole or not at all; the last good tool stays.",
    "validate": "Right, or refused with place and cure: never silently wrong.",
    "consent": "What was shown to a person runs, once, and nothing else.",
    "admit": "A slot is never lost; explain says why a call waits, and how long.",
    "run": "By the deadline the caller has a result, whatever the tool does.",
    "shape": "What a model reads is bounded, and secrets are hidden.",
    "record": "One record of each call, also of one that was refused.",
    "publish": "One final event: succeeded, failed, timeout, cancelled, rejected.",
}
"""Each stage of `calls/pipeline.py`, and its promise."""
COLUMNS = 4
WIDTH, HEIGHT, MARGIN = 208, 118, 20
BOX_WIDTH, BOX_HEIGHT = 172, 30
LETTERS = 27
"""Of a caption's line."""


def draw_way() -> str:
    """Return the picture as SVG."""
    drawn = []
    for number, (stage, promise) in enumerate(STAGES.items()):
        x = MARGIN + number % COLUMNS * WIDTH
        y = MARGIN + number // COLUMNS * HEIGHT
        drawn.append(
            f'<rect x="{x}" y="{y}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="6"/>'
            f'<text class="stage" x="{x + BOX_WIDTH / 2:g}" y="{y + 20}">{stage}</text>'
        )
        if (number + 1) % COLUMNS:
            drawn.append(f'<text class="next" x="{x + WIDTH - 18}" y="{y + 21}">→</text>')
        for line, words in enumerate(textwrap.wrap(promise, LETTERS)):
            drawn.append(f'<text x="{x}" y="{y + 48 + 16 * line}">{escape(words)}</text>')
    wide = 2 * MARGIN + COLUMNS * WIDTH - (WIDTH - BOX_WIDTH)
    high = 2 * MARGIN + -(-len(STAGES) // COLUMNS) * HEIGHT - 18
    return f"""\
<svg viewBox="0 0 {wide} {high}" xmlns="http://www.w3.org/2000/svg">
<title>The way of a call: {", ".join(STAGES)}</title>
<style>
text {{ font: 12.5px system-ui, "Segoe UI", Roboto, sans-serif; fill: #c5c8c6; }}
.stage {{ font-weight: 600; font-size: 14px; fill: #98a84b; text-anchor: middle; }}
.next {{ font-size: 16px; text-anchor: middle; }}
rect {{ fill: #262b35; stroke: #4a5160; }}
</style>
<path d="M0 0h{wide}v{high}H0z" fill="#1b1f27"/>
{chr(10).join(drawn)}
</svg>
"""
