"""What `chat` says of a model that cannot answer, and of names that are none; each cure is done."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.agent.models.servers import Turn, play
from tests.cli.chat.test_turns import folder, script
from tests.cli.talking import in_pipe

__all__ = ["folder"]

PROVIDERS = {
    "openai": "OPENAI_API_KEY",
    "openai_responses": "OPENAI_API_KEY",
    "anthropic": "ANTHROPIC_API_KEY",
    "gemini": "GEMINI_API_KEY",
}
KEY = "sk-made-up-4711"


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_no_key(folder: Path, provider: str) -> None:
    """The variable is named, and so is the option for a server that needs none; both help."""
    words = ("chat", "--model", f"{provider}:x")
    said = await asyncio.to_thread(in_pipe, folder, *words, "go")
    assert (said.code, said.out) == (2, "")
    assert f"has no key: set {PROVIDERS[provider]}, or name a server that needs none" in said.err
    assert "with --base-url" in said.err
    assert "api_key" not in said.err
    async with play(provider, [Turn(text="Seven.")]) as server:
        base = ("--base-url", server.url)
        answered = await asyncio.to_thread(in_pipe, folder, *words, *base, "go")
    assert (answered.code, answered.out) == (0, "Seven.\n"), answered.err


async def test_a_server_that_is_not_there(folder: Path) -> None:
    """It is named with what to do, which helps; the key is not repeated."""
    async with play("openai", []) as server:
        url = server.url
    words = ("chat", "--model", "openai:x", "go", "--base-url")
    said = await asyncio.to_thread(in_pipe, folder, *words, url, OPENAI_API_KEY=KEY)
    err = " ".join(said.err.split())
    assert (said.code, said.out) == (1, "")
    assert f"no answer from {url.split('/')[2]}: " in err
    assert "; check that it runs and can be reached from here, or try again" in err
    assert "Error" not in err
    assert KEY not in err
    async with play("openai", [Turn(text="Seven.")]) as server:
        done = await asyncio.to_thread(in_pipe, folder, *words, server.url)
    assert (done.code, done.out) == (0, "Seven.\n"), done.err


@pytest.mark.parametrize(
    ("words", "message", "right"),
    [
        (("--enable", "calclator"), "did you mean 'calculator'?", ("--enable", "calculator")),
        (("--enable", ","), "--enable takes names of tools", ("--enable", "nap,calculator")),
        (("--groups", "riting"), "there is no group 'riting'; a file with `kind: group`", ()),
        (
            ("--sub-agents", "one"),
            "takes a whole number; write --sub-agents",
            ("--sub-agents", "1"),
        ),
        (("--max-rounds", "0"), "no less than 1; write --max-rounds 1", ("--max-rounds", "1")),
        (("--protocol", "vpc"), "did you mean 'vcp'?", ("--protocol", "vcp")),
        (("--model", "recorded:x"), "name one model", ()),
        (("--api-key", "x"), "set it in the environment, such as OPENAI_API_KEY", ()),
    ],
)
def test_a_word_that_is_none(
    folder: Path, words: tuple[str, ...], message: str, right: tuple[str, ...]
) -> None:
    """It is said before the model is asked, and what is said to write is taken."""
    begin = ("chat", *script(folder, {"text": "Hi."}))
    said = in_pipe(folder, *begin, *words, "go")
    assert (said.code, said.out) == (2, "")
    assert message in " ".join(said.err.split())
    done = in_pipe(folder, *begin, *right, "go")
    assert (done.code, done.out) == (0, "Hi.\n"), done.err


def test_an_address_that_is_none(folder: Path) -> None:
    """The option is named as it is typed, not as a program writes it."""
    words = ("chat", "--model", "openai:x", "--base-url", "localhost:8000", "go")
    said = in_pipe(folder, *words)
    assert said.code == 2
    assert "--base-url must be an address such as http://127.0.0.1:8000/v1" in said.err
    assert "base_url" not in said.err


def test_a_key_with_the_end_of_a_line(folder: Path) -> None:
    """A key that was read from a file with its line feed: what to strip is said, not the key."""
    said = in_pipe(folder, "chat", "--model", "openai:x", "go", OPENAI_API_KEY=f"{KEY}\n")
    assert said.code == 2
    assert "OPENAI_API_KEY holds a character that no key has" in " ".join(said.err.split())
    assert KEY not in said.err


def test_a_tool_that_is_off(folder: Path) -> None:
    """Why a model's call of it did not run is said with what turns it on; that turns it on."""
    asks = {"text": "", "calls": [{"name": "calculator", "arguments": {"expression": "6*7"}}]}
    file = folder / "tools" / "calculator.yaml"
    text = file.read_text(encoding="utf-8")
    off = "status: testing\n---\nkind: group\nname: sums\ntools: [calculator]"
    words = ("chat", *script(folder, asks, {"text": "Well."}))
    file.write_text(f"{text.rstrip()}\n{off}\n", encoding="utf-8")
    cure = "to turn it on: --enable calculator, or --groups GROUP"
    assert cure in in_pipe(folder, *words, "go").err
    for right in (("--enable", "calculator"), ("--groups", "sums")):
        assert "calculator: 42" in in_pipe(folder, *words, *right, "go").err
    file.write_text(f"{text.rstrip()}\nstatus: draft\n", encoding="utf-8")
    cure = "models may call it with `status: published`; it says draft"
    assert cure in in_pipe(folder, *words, "go").err
    file.write_text(f"{text.rstrip()}\nstatus: published\n", encoding="utf-8")
    assert "calculator: 42" in in_pipe(folder, *words, "go").err
