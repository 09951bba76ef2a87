"""How do values become the HTML of a page?

All values are escaped, and what would deceive a reader is shown; only templates write HTML.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from jinja2 import DictLoader, Environment, StrictUndefined, pass_context
from jinja2.runtime import Context
from markupsafe import Markup, escape

from tool_engine.studio.path_parts import quote_part
from tool_engine.visible import cut_middle, deceptive_characters, escape_hidden

_HERE: Final = Path(__file__).parent
LANGUAGES: Final = {"en": "English", "zh": "中文"}
_ID: Final = 8
"""Characters of an id that are shown."""
_MOST_SHOWN: Final = 20_000
"""Letters of one value on a page; the whole of it can be downloaded."""
_JSON: Final = json.JSONEncoder(indent=2, ensure_ascii=False)
_TONES: Final = {
    "succeeded": "ok",
    "failed": "bad",
    "timeout": "warn",
    "rejected": "warn",
    "input_required": "warn",
    "asking": "warn",
    "cancelled": "still",
    "queued": "still",
}
"""The colour of a state or an outcome; that of the others is neutral."""


def load_pages() -> None:
    """Read all that pages are made of, once: no request waits for a disk."""
    environment = _make_environment()
    for name in environment.list_templates():
        environment.get_template(name)
    for name in list_static():
        digest_static(name)
    for language in LANGUAGES:
        _read_texts(language)


def render_page(template: str, values: Mapping[str, Any]) -> str:
    """Return the HTML of a template.

    Args:
        template: Its file name.
        values: What it may name; `language` decides in which language it is.
    """
    return _make_environment().get_template(template).render(values)


def translate_text(text: str, language: str) -> str:
    """Return a text of the studio's own in a language; words of the API become words of people."""
    return _read_texts(language).get(text, text)


@cache
def _read_texts(language: str) -> dict[str, str]:
    data = _read_folder("languages").get(f"{language}.toml", b"")
    return tomllib.loads(data.decode())


@cache
def _read_folder(name: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (_HERE / name).iterdir() if path.is_file()}


def list_static() -> dict[str, bytes]:
    """Return the files that a browser loads beside the pages, by name."""
    return _read_folder("static")


@cache
def digest_static(name: str) -> str:
    """Return what stands in the address of a file, so that a browser may keep it for ever."""
    return sha256(list_static()[name]).hexdigest()[:16]


@cache
def _make_environment() -> Environment:
    environment = Environment(
        loader=DictLoader(
            {name: data.decode() for name, data in _read_folder("templates").items()}
        ),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.filters.update(
        visible=show_text,
        beginning=show_beginning,
        id=show_id,
        key=make_key,
        json=show_json,
        part=quote_part,
        seconds=show_seconds,
        number=show_number,
        percent=show_percent,
        when=show_time,
    )
    environment.globals["_"] = _translate_here
    environment.globals["tone_of"] = tone_of
    environment.globals["static"] = _link_static
    return environment


@pass_context
def _translate_here(context: Context, text: str, **values: Any) -> Markup:
    shown = escape(translate_text(text, context["language"]))
    return shown.format(**values) if values else shown


def tone_of(state: str) -> str:
    """Return the class of the tag of a state or an outcome."""
    return _TONES.get(state, "info")


@pass_context
def _link_static(context: Context, name: str) -> str:
    return f"{context['root']}/static/{digest_static(name)}/{name}"


def show_text(value: Any, most: int = 2_000) -> Markup:
    """Return a foreign text: apart from the direction of what is around it, and nothing unseen."""
    text = cut_middle(value if isinstance(value, str) else str(value), most)
    if deceptive_characters().search(text):
        text = escape_hidden(text, keeps_lines=True)
    return Markup("<bdi>{}</bdi>").format(text)


def show_beginning(value: str, most: int) -> Markup:
    """Return the beginning of a foreign text, for a line of a list."""
    return show_text(value if len(value) <= most else f"{value[:most].rstrip()}…")


def show_id(value: str | None) -> Markup:
    """Return the end of an id, enough to know it by; the whole is its title."""
    if value is None:
        return Markup("–")
    end = value if len(value) <= _ID else f"…{value[-_ID:]}"
    return Markup('<code title="{}">{}</code>').format(value, show_text(end))


def make_key(name: str) -> str:
    """Return what a name is in ids of elements: the same wherever it stands on a page."""
    return sha256(name.encode("utf-8", "backslashreplace")).hexdigest()[:16]


def show_json(value: Any) -> Markup:
    """Return a value as JSON on several lines, as far as it is shown; of a text, both ends."""
    if isinstance(value, str):
        return show_text(value, _MOST_SHOWN)
    pieces, size = [], 0
    for piece in _JSON.iterencode(value):
        pieces.append(piece)
        size += len(piece)
        if size > _MOST_SHOWN:  # what is not shown is not written
            text = "".join(pieces)
            is_one_text = len(piece) > _MOST_SHOWN // 2
            shown = cut_middle(text, _MOST_SHOWN) if is_one_text else text[:_MOST_SHOWN]
            return show_text(f"{shown}\n…", 2 * _MOST_SHOWN)
    return show_text("".join(pieces), _MOST_SHOWN)


def show_seconds(value: float | None) -> str:
    """Return a duration, such as `840 ms`, `12.1 s` or `3 min 5 s`."""
    if value is None:
        return "–"
    if value < 1:
        return f"{value * 1000:.0f} ms" if value >= 0.001 or value == 0 else "<1 ms"
    if value < 60:
        return f"{value:.1f} s"
    minutes, seconds = divmod(round(value), 60)
    if minutes < 60:
        return f"{minutes} min {seconds} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"


def show_number(value: float | None) -> str:
    """Return a number with its thousands apart."""
    if value is None:
        return "–"
    return f"{value:,.1f}" if isinstance(value, float) and value % 1 else f"{int(value):,}"


def show_percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f} %"


def show_time(value: str | float | None) -> Markup:
    """Return a moment, in universal time until the browser shows it in its own."""
    if value is None:
        return Markup("–")
    at = (
        datetime.fromisoformat(value)
        if isinstance(value, str)
        else datetime.fromtimestamp(value, UTC)
    )
    shown = at.astimezone(UTC)
    return Markup('<time datetime="{}">{}</time>').format(
        shown.isoformat(), shown.strftime("%Y-%m-%d %H:%M:%S UTC")
    )
