"""Protocols by their names: those of this package, and those that other packages offer. A49."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.protocols.line_protocol import LineProtocol
from tool_engine.errors import ConfigurationError
from tool_engine.interfaces import ToolCallingProtocol
from tool_engine.protocols.registry import PROTOCOLS, get_protocol, protocol_names

Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Puts a package with entry points where Python finds installed packages."""

    def put(package: str, **places: str) -> None:
        folder = tmp_path / package
        info = folder / f"{package}-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        lines = "".join(f"{name} = {place}\n" for name, place in places.items())
        (info / "entry_points.txt").write_text(f"[tool_engine.protocols]\n{lines}")
        monkeypatch.syspath_prepend(str(folder))

    return put


@pytest.mark.parametrize("name", PROTOCOLS)
def test_every_protocol_of_the_table(name: str) -> None:
    """Each line of the table is a protocol of that name, and takes the options of all."""
    made = get_protocol(name, tools=[], repair=False)
    assert isinstance(made, ToolCallingProtocol)
    assert made.name == name
    assert name in protocol_names()


def test_a_protocol_of_another_package(install: Install) -> None:
    """An installed package offers one under a name, with options of its own."""
    install("lines_pkg", lines="tests.protocols.line_protocol:LineProtocol")
    assert protocol_names() == [*PROTOCOLS, "lines"]
    made = get_protocol("lines", fails=True)
    assert isinstance(made, LineProtocol)
    assert made.fails


def test_the_own_names_stay(install: Install) -> None:
    """Nobody else can take the name of a protocol of this package."""
    install("thief", openai="tests.protocols.line_protocol:LineProtocol")
    assert type(get_protocol("openai")).__name__ == "OpenAIProtocol"
    assert protocol_names() == list(PROTOCOLS)


def test_two_packages_and_one_name(install: Install) -> None:
    """Neither is guessed; both are named. The same twice is one."""
    install("first", lines="tests.protocols.line_protocol:LineProtocol")
    install("again", lines="tests.protocols.line_protocol:LineProtocol")
    assert get_protocol("lines").name == "lines"
    install("second", lines="tests.protocols.line_protocol:TextLineProtocol")
    with pytest.raises(ConfigurationError, match=r"'first'.* and .*'second'"):
        get_protocol("lines")


@pytest.mark.parametrize(
    ("place", "word"),
    [
        ("no_such_module:Protocol", "of 'broken' cannot be loaded from no_such_module:Protocol"),
        ("tests.protocols.line_protocol:Nothing", "cannot be loaded"),
        ("tests.protocols.line_protocol:__all__", "cannot be called"),
        ("tests.protocols.line_protocol:no_protocol", "has no definitions, parse, decoder, format"),
    ],
)
def test_a_package_that_offers_something_else(install: Install, place: str, word: str) -> None:
    """The message names the package and what is missing."""
    install("broken", odd=place)
    with pytest.raises(ConfigurationError, match=word):
        get_protocol("odd")


@pytest.mark.parametrize(
    ("name", "options", "word"),
    [
        ("opnai", {}, "unknown protocol 'opnai'; known are openai, .*did you mean 'openai'"),
        ("", {}, "unknown protocol ''"),
        (None, {}, "unknown protocol None"),
        ([], {}, "unknown protocol"),
        ("openai", {"colour": "red"}, "the protocol 'openai': .*colour"),
    ],
)
def test_mistakes(name: Any, options: dict[str, Any], word: str) -> None:
    """A name that nobody has, and an option that a protocol does not take."""
    with pytest.raises(ConfigurationError, match=word):
        get_protocol(name, **options)
