"""Do we take the signatures that other libraries take, and refuse what they refuse?"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from tests.contracts.signatures import PEERS, SIGNATURES, Signature, function_of
from tool_engine.catalog.code.function import tool_from_function
from tool_engine.errors import DefinitionError

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venv-bench" / "bin" / "python"
REFUSED = frozenset(
    f"{form}{name}" for name in ("function", "own class") for form in ("", "list of ", "optional ")
)
"""What has no JSON form, as a function and an object of any class."""


def _our_schema(signature: Signature) -> dict[str, Any] | None:
    try:
        return tool_from_function(function_of(signature)).parameters_schema
    except DefinitionError:
        return None


def _takes(schema: dict[str, Any], value: Any) -> bool:
    return jsonschema_rs.validator_for(schema, validate_formats=True).is_valid({"value": value})


def test_there_are_a_hundred() -> None:
    """The table is as long as it was promised."""
    assert len(SIGNATURES) >= 100


@pytest.mark.parametrize("name", SIGNATURES)
def test_a_signature_is_taken_and_its_rules_are_shown(name: str) -> None:
    """The schema takes what is right, refuses what is wrong, and leaves out what may be."""
    schema = _our_schema(SIGNATURES[name])
    assert (schema is None) is (name in REFUSED)
    if schema is not None:
        signature = SIGNATURES[name]
        assert _takes(schema, signature.right)
        assert not _takes(schema, signature.wrong)
        is_optional = name.startswith("optional ")
        assert jsonschema_rs.is_valid(schema, {}) is is_optional
        assert _takes(schema, None) is is_optional


@pytest.fixture(scope="module")
def peers() -> dict[str, dict[str, Any]]:
    if not PYTHON.exists():
        pytest.skip("the peers are not installed; `make bench` installs them into .venv-bench")
    run = subprocess.run(
        [PYTHON, "-m", "tests.contracts.signatures"],
        capture_output=True,
        text=True,
        check=True,
        timeout=200,
        cwd=ROOT,
    )
    found: dict[str, dict[str, Any]] = json.loads(run.stdout)
    return found


@pytest.mark.parametrize("peer", PEERS)
def test_what_a_peer_takes_is_taken(peer: str, peers: dict[str, dict[str, Any]]) -> None:
    """A signature that a peer can show to models is no error here."""
    taken = {name for name, schema in peers[peer].items() if schema is not None}
    assert len(taken) > 90
    ours = {name for name in SIGNATURES if _our_schema(SIGNATURES[name]) is not None}
    assert taken - ours == set()


@pytest.mark.parametrize("peer", PEERS)
def test_what_a_peer_shows_is_shown(peer: str, peers: dict[str, dict[str, Any]]) -> None:
    """What is wrong by a peer's schema is wrong by ours, and so is what is right."""
    differing = []
    for name, theirs in peers[peer].items():
        ours = _our_schema(SIGNATURES[name])
        if theirs is not None and ours is not None:
            _, right, wrong = SIGNATURES[name]
            if not _takes(theirs, right) or (_takes(ours, wrong) and not _takes(theirs, wrong)):
                differing.append(name)
    assert differing == []
