"""Does requirements.lock hold what pyproject.toml asks for?"""

from __future__ import annotations

import re
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.meta.sources import ROOT

PIN = re.compile(r"^([a-z0-9._-]+)==(\S+)(.*(?:\n +--hash=sha256:[0-9a-f]{64}.*)+)?", re.MULTILINE)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))

FRAMEWORKS = {"langchain", "llamaindex", "openai-agents", "pydantic-ai"}
"""Each brings twenty packages or more, to people who chose it before."""


def asked(group: str) -> list[Requirement]:
    core = PROJECT["project"]["dependencies"]
    return [Requirement(text) for text in [*core, *PROJECT["dependency-groups"][group]]]


@pytest.mark.parametrize(
    ("lock", "group"),
    [
        ("requirements.lock", "dev"),
        ("tests/benchmarks/requirements.lock", "bench"),
        ("tests/proof/requirements.lock", "proof"),
    ],
)
def test_lock(lock: str, group: str) -> None:
    """Each requirement is pinned to a version that it allows, each pin has hashes, and the lock
    names no index; `make lock` mends it."""
    text = (ROOT / lock).read_text(encoding="utf-8")
    pins = {canonicalize_name(name): version for name, version, _ in PIN.findall(text)}
    unmet = [
        str(requirement)
        for requirement in asked(group)
        if not requirement.specifier.contains(
            pins.get(canonicalize_name(requirement.name), "0"), prereleases=True
        )
    ]
    assert unmet == []
    assert [name for name, _, hashes in PIN.findall(text) if not hashes] == []
    assert "://" not in text


def test_all_extra() -> None:
    """The extra `all` names every other extra but Ray, uvloop and the frameworks, in order."""
    extras = PROJECT["project"]["optional-dependencies"]
    (everything,) = (Requirement(text) for text in extras["all"])
    assert everything.name == PROJECT["project"]["name"]
    assert everything.extras == set(extras) - {"all", "ray", "uvloop", *FRAMEWORKS}
    assert extras["all"][0] == f"tool-engine[{','.join(sorted(everything.extras))}]"
