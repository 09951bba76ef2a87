"""Models by name."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tool_engine.agent import models
from tool_engine.agent.models.registry import MODELS, chat_model
from tool_engine.errors import ConfigurationError


@pytest.mark.parametrize("provider", [each for each in MODELS if each != "recorded"])
def test_a_model_by_name(provider: str) -> None:
    """A41: each provider of the table makes its client, with the name that stands behind it."""
    model: Any = chat_model(f"{provider}:vendor/model:7b", base_url="http://127.0.0.1:9")
    assert (model.name, model.provider) == ("vendor/model:7b", provider)
    assert model.protocol.name == provider


def test_a_recorded_model_by_name(tmp_path: Path) -> None:
    """A script is a model, too."""
    path = tmp_path / "talk.json"
    path.write_text('{"replies": [{"text": "Hello."}]}')
    assert chat_model(f"recorded:{path}").name == "recorded"
    with pytest.raises(ConfigurationError, match="has no argument 'base_url'"):
        chat_model(f"recorded:{path}", base_url="http://127.0.0.1:9")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("antropic:x", "did you mean 'anthropic:x'"),
        ("gpt-5-mini", "did you mean 'openai:gpt-5-mini'"),
        ("o3", "did you mean 'openai:o3'"),
        ("Claude-sonnet-4", "did you mean 'anthropic:Claude-sonnet-4'"),
        ("gemini-2.5-pro", "did you mean 'gemini:gemini-2.5-pro'"),
        ("google:gemini-2.5-pro", "did you mean 'gemini:gemini-2.5-pro'"),
        ("openai/gpt-5", "did you mean 'openai:gpt-5'"),
        ("gemni", "did you mean 'gemini'"),
        ("gem-3", "got 'gem-3'; write openai:gem-3 with base_url for a server"),
        ("llama3:8b", "; write openai:llama3:8b with base_url for a server"),
        ("openai", "provider:name.*; write openai:NAME$"),
        ("", "got ''; write openai:NAME with"),
        (None, "got None; write openai:NAME with"),
        ("openai:", "a model has a name"),
    ],
)
def test_a_name_that_is_none(name: Any, words: str) -> None:
    """What is no name of a model says what one is."""
    with pytest.raises(ConfigurationError, match=words):
        chat_model(name)


@pytest.mark.parametrize(
    ("provider", "extra"),
    [("openai", "openai"), ("openai_responses", "openai"), ("anthropic",) * 2, ("gemini",) * 2],
)
def test_an_sdk_that_is_missing(provider: str, extra: str) -> None:
    """A missing SDK says which extra brings it."""
    package = {"gemini": "google.genai"}.get(provider, extra)
    code = (
        "import sys\n"
        f"sys.modules[{package!r}] = None\n"
        "from tool_engine.agent.models import chat_model\n"
        f"try: chat_model('{provider}:x')\n"
        "except ImportError as error: print(type(error).__name__, error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert "MissingExtraError" in done.stdout
    assert f"pip install 'tool-engine[{extra}]'" in done.stdout


def test_what_an_sdk_refuses() -> None:
    """What the SDK itself refuses when a client is made is a setting that cannot be."""
    with pytest.raises(ConfigurationError, match=r"GeminiModel: [\s\S]*temperature"):
        chat_model("gemini:x", base_url="http://127.0.0.1:9", temperature="warm")


def test_a_profile_that_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So is what the SDK finds in its environment."""
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    monkeypatch.delenv("ANTHROPIC_AUTH_TOKEN", raising=False)
    monkeypatch.setenv("ANTHROPIC_PROFILE", "nowhere")
    monkeypatch.setenv("ANTHROPIC_CONFIG_DIR", str(tmp_path))
    with pytest.raises(ConfigurationError, match=r"AnthropicModel: .*nowhere"):
        chat_model("anthropic:x")


def test_no_sdk_before_it_is_needed() -> None:
    """An SDK is loaded with its client, not with the package."""
    code = (
        "import sys\n"
        "import tool_engine\n"
        "from tool_engine.agent.models import RecordedModel, chat_model\n"
        "print({'openai', 'anthropic', 'google.genai', 'httpx2'} & set(sys.modules))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "set()"


def test_the_names_of_the_package() -> None:
    """Every public name is there, and a wrong one is told."""
    assert all(hasattr(models, name) for name in models.__all__)
    assert set(models.__all__) <= set(dir(models))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        getattr(models, "nothing")  # noqa: B009 - mypy knows that it is not there
