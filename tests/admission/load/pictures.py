"""Draws what adaptive limits do: `python -m tests.admission.load.pictures` writes the picture.

It prints the table of docs/how-to/adaptive-limits.md, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.admission.load.service import SCENARIOS, Outcome, Scenario, run_scenario

PICTURE: Final = Path(__file__).parents[3] / "docs" / "pictures" / "adaptive-limits.svg"
KINDS: Final = ("aimd", "gradient2")
_WIDTH: Final = 400.0
_HEIGHT: Final = 120.0
_MOST: Final = 50
"""The largest limit that is shown."""
_STYLE: Final = """
  .ground { fill: #ffffff; } svg { font: 12px system-ui, sans-serif; }
  text { fill: #24292f; } .faint { fill: #57606a; } .frame { fill: none; stroke: #d0d7de; }
  path { fill: none; stroke-width: 1.5; } .aimd { stroke: #b35900; } .gradient2 { stroke: #0969da; }
  .best { stroke: #57606a; stroke-dasharray: 5 4; }
  .aimd-name { fill: #b35900; } .gradient2-name { fill: #0969da; }
  @media (prefers-color-scheme: dark) {
    .ground { fill: #0d1117; } text { fill: #e6edf3; } .faint { fill: #9198a1; }
    .frame { stroke: #3d444d; } .aimd { stroke: #f0a35e; } .gradient2 { stroke: #6cb6ff; }
    .best { stroke: #9198a1; } .aimd-name { fill: #f0a35e; } .gradient2-name { fill: #6cb6ff; }
  }
"""


def draw(runs: dict[str, dict[str, Outcome]]) -> str:
    """The picture, two panels in a row."""
    rows = (len(SCENARIOS) + 1) // 2
    width, height = 2 * (_WIDTH + 50), rows * (_HEIGHT + 50) + 40
    return "\n".join(
        [
            (
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" '
                'role="img"><title>Limits over 90 seconds, in six scenarios</title>'
            ),
            f"<style>{_STYLE}</style>",
            '<rect class="ground" width="100%" height="100%"/>',
            (
                '<text x="40" y="20">limit over 90 s: <tspan class="aimd-name">aimd</tspan>, '
                '<tspan class="gradient2-name">gradient2</tspan>, '
                '<tspan class="faint">dashed: the best one that stays</tspan></text>'
            ),
            *(
                line
                for number, scenario in enumerate(SCENARIOS)
                for line in _draw_panel(number, scenario, runs[scenario.name])
            ),
            "</svg>\n",
        ]
    )


def _draw_panel(number: int, scenario: Scenario, runs: dict[str, Outcome]) -> Iterator[str]:
    left, top = 40 + number % 2 * (_WIDTH + 40), 50 + number // 2 * (_HEIGHT + 50)
    yield f'<g transform="translate({left:g} {top:g})">'
    yield f'<text y="-6">{scenario.name}</text>'
    yield f'<rect class="frame" width="{_WIDTH:g}" height="{_HEIGHT:g}"/>'
    for value in (0, _MOST):
        yield f'<text class="faint" x="-20" y="{_y(value) + 4:.0f}">{value}</text>'
    yield f'<path class="best" d="M0 {_y(scenario.best):.1f}H{_WIDTH:g}"/>'
    for kind in KINDS:
        points = [
            f"{at / scenario.seconds * _WIDTH:.1f} {_y(limit):.1f}"
            for at, limit in runs[kind].limits
        ]
        yield f'<path class="{kind}" d="M{"L".join(points)}"/>'
    yield "</g>"


def _y(limit: int) -> float:
    return _HEIGHT * (1 - min(limit, _MOST) / _MOST)


def run_all() -> tuple[str, list[str]]:
    """The picture, and the rows of the table."""
    runs: dict[str, dict[str, Outcome]] = {}
    rows = []
    for scenario in SCENARIOS:
        stays = run_scenario(scenario, limit=scenario.best)
        cells = [f"{scenario.best}", f"{stays.throughput:.0f}/s", f"{stays.wait_p95:.2f} s"]
        runs[scenario.name] = {}
        for kind in KINDS:
            found = run_scenario(scenario, adaptive={"kind": kind, "min": 1, "max": 100})
            runs[scenario.name][kind] = found
            share = found.throughput / stays.throughput
            cells += [f"{share:.0%}", f"{found.wait_p95:.2f} s"]
        rows.append(f"| {scenario.name} | {' | '.join(cells)} |")
    return draw(runs), rows


if __name__ == "__main__":
    picture, table = run_all()
    PICTURE.write_text(picture, encoding="utf-8")
    print(*table, sep="\n")
