"""The picture is valid, shows what ran, and stays small."""

import re
import xml.etree.ElementTree as ET
from typing import Any

import pytest

from tests.testing.test_simulation import call, random_calls
from tool_engine import ConcurrencyConfig, ConfigurationError
from tool_engine.testing import plot, simulate

NAMES = "{http://www.w3.org/2000/svg}"


def parse(text: str) -> Any:
    return ET.fromstring(text)  # noqa: S314 - our own


def picture(calls: Any, *, by: str | None = None, title: str | None = None, **limits: Any) -> Any:
    return parse(plot(simulate(calls, ConcurrencyConfig(**limits)), by=by, title=title))


def texts(svg: Any) -> list[str]:
    return [element.text for element in svg.iter(f"{NAMES}text")]


def bars(svg: Any) -> list[dict[str, Any]]:
    return [
        {
            "x": float(rect.get("x")),
            "y": float(rect.get("y")),
            "width": float(rect.get("width")),
            "fill": rect.get("fill"),
            "title": rect.find(f"{NAMES}title").text,
        }
        for rect in svg.iter(f"{NAMES}rect")
        if rect.find(f"{NAMES}title") is not None
    ]


def test_a_bar_per_call_and_a_row_per_slot() -> None:
    """Bars stand where and as long as the call ran; a heavy call takes two rows."""
    svg = picture([call(0, 0.0, 4.0), call(1, 1.0, 2.0, weight=2), call(2, 1.0, 1.0)])
    shown = bars(svg)
    assert len(shown) == 4
    assert [round(bar["width"]) for bar in shown if "c0" in bar["title"]] == [880]
    assert len({bar["y"] for bar in shown}) == 4
    assert {round(bar["x"]) for bar in shown} == {64, 284}
    assert {"slot 0", "slot 3", "0 s", "4 s", "fifo: 10 slots", "http"} <= set(texts(svg))
    assert "c0 t: waited 0 s, ran 4 s" in [bar["title"] for bar in shown]


def test_the_queue_is_drawn_beneath() -> None:
    """How many wait, over time; nobody waiting is no area; refused calls are strokes."""
    waiting = picture([call(number, 0.0) for number in range(4)], max_concurrent=1)
    assert "3 wait" in texts(waiting)
    (area,) = (path for path in waiting.iter(f"{NAMES}path") if path.get("class") == "queue")
    heights = re.findall(r"H([\d.]+)V([\d.]+)", area.get("d"))
    floor = float(heights[-1][1])
    assert [round(floor - float(y)) for _, y in heights] == [70, 47, 23, 0]
    calm = picture([call(0, 0.0)])
    assert [path for path in calm.iter(f"{NAMES}path") if path.get("class") == "queue"] == []
    refused = picture([call(0, 0.0), call(1, 0.5)], max_concurrent=1, strategy="reject")
    assert "1 calls refused (red)" in texts(refused)


def test_a_short_peak_of_the_queue_is_not_lost() -> None:
    """A queue that is longest for a thousandth of the time still shows at its height."""
    calls = [call(0, 0.0, 10_000.0), *(call(number, 5_000.0, 0.01) for number in range(1, 6))]
    svg = picture(calls, max_concurrent=2)
    assert "4 wait" in texts(svg)
    (area,) = (path for path in svg.iter(f"{NAMES}path") if path.get("class") == "queue")
    heights = [float(y) for _, y in re.findall(r"H([\d.]+)V([\d.]+)", area.get("d"))]
    assert max(heights) - min(heights) == pytest.approx(70.0)


def test_colours_are_by_key_when_there_are_keys() -> None:
    """By bucket without keys; by whatever is asked for; too many share one colour."""
    mixed = [call(0, 0.0), call(1, 0.0, bucket=None)]
    assert {"http", "__default__"} <= set(texts(picture(mixed)))
    keyed = [call(0, 0.0, key="alice"), call(1, 0.0)]
    assert {"alice", "no key"} <= set(texts(picture(keyed)))
    assert "http" in texts(picture(keyed, by="bucket"))
    assert "priority 5" in texts(picture(keyed, by="priority"))
    many = picture([call(number, 0.0, key=f"key {number}" + 30 * "x") for number in range(12)])
    assert "4 others" in texts(many)
    assert len({bar["fill"] for bar in bars(many)}) == 9
    with pytest.raises(ConfigurationError, match=r"by must be one of bucket, key.*got 'tol'"):
        picture(keyed, by="tol")


def test_text_is_escaped() -> None:
    """Names come from anywhere: markup is text, and what XML cannot hold is replaced."""
    name = '<b>&"\x00\x1b\ud800]]>'
    svg = picture([call(0, 0.0, bucket=name, tool_name=name)], title=f"{name} title")
    assert '<b>&"\ufffd\ufffd\ufffd]]>' in texts(svg)
    assert list(svg.iter(f"{NAMES}b")) == []
    assert texts(svg)[0].endswith("title")


def test_it_is_readable_on_dark_ground_and_loads_nothing() -> None:
    """Its own colours for dark mode; no address but the name of the format."""
    text = plot(simulate([call(0, 0.0)], ConcurrencyConfig(bucket_limits={"http": 3})))
    assert "prefers-color-scheme: dark" in text
    assert "fifo: 10 slots, http 3" in text
    assert re.findall(r"\w+://[^\"]*", text) == ["http://www.w3.org/2000/svg"]
    assert "url(" not in text
    assert "@import" not in text


def test_many_calls_stay_a_small_file() -> None:
    """Ten thousand calls, and hundreds of slots, are less than a megabyte, and each is drawn."""
    few_slots = {"max_concurrent": 8, "queue_size": 10_000, "queue_timeout": None}
    text = plot(simulate(random_calls(10_000), ConcurrencyConfig(**few_slots)))  # type: ignore[arg-type]
    assert len(text) < 1_000_000
    assert text.count("M") > 5_000
    parse(text)
    wide = [call(number, number / 1000, 300.0) for number in range(300)]
    wide += [call(300 + number, 400 + number / 100, 0.02) for number in range(15_000)]
    svg = picture(wide, max_concurrent=500)
    assert "slots 200 to 299 are not shown" in texts(svg)
    assert len(ET.tostring(svg)) < 1_000_000


def test_nothing_ran_or_took_no_time() -> None:
    """No bars, or bars without width, are a picture too."""
    assert bars(picture([call(0, 0.0), call(1, 0.0, weight=5)], max_concurrent=1)) != []
    assert len(bars(picture([call(0, 0.0, 0.0)]))) == 1
    only_bypass = picture([call(0, 0.0, caller_type="workflow_node")])
    assert bars(only_bypass) == []


def test_bars_too_thin_to_tell_apart_are_joined() -> None:
    """They say how many calls they stand for, and have the colour of the longest."""
    calls = [call(0, 0.0, 1000.0), call(1, 500.0, 0.01), call(2, 500.02, 0.02, bucket="ai")]
    svg = picture(calls)
    joined = [bar for bar in bars(svg) if bar["title"] == "2 calls"]
    assert [bar["fill"] for bar in joined] == [bars(picture(calls[2:]))[0]["fill"]]
    assert len(bars(svg)) == 2
