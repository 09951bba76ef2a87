"""Does a tool's `concurrency` load as its author meant it, or not at all?"""

from __future__ import annotations

from typing import Any

import pytest

from tool_engine.catalog.loader import ToolConfigLoader
from tool_engine.errors import DefinitionError
from tool_engine.model.settings.concurrency import BreakerPolicy, CollisionPolicy, ToolConcurrency

HEAD = """\
name: t
description: d
parameters:
  - {name: url, type: string, description: d}
  - {name: 页码, type: integer, description: d}
"""


def tool(text: str) -> str:
    """A definition with this `concurrency`; `text` may close it and go on."""
    return f"{HEAD}concurrency: {text}\n"


ACCEPTED = [
    ("{}", ToolConcurrency()),
    ("{queue_timeout: 2}", ToolConcurrency(queue_timeout=2.0)),
    ("{priority: -3, weight: 2.0}", ToolConcurrency(priority=-3, weight=2)),
    ("{key: tool}", ToolConcurrency(key="tool", key_limit=1)),
    ("{key: conversation_id, key_limit: 2}", ToolConcurrency(key="conversation_id", key_limit=2)),
    ("{key: caller_id}", ToolConcurrency(key="caller_id")),
    ("{key: workflow_id}", ToolConcurrency(key="workflow_id")),
    ("{key: params}", ToolConcurrency(key="params")),
    ("{key: params.url}", ToolConcurrency(key="params.url")),
    ("{key: params.页码}", ToolConcurrency(key="params.页码")),
    ("{key_limit: 3}", ToolConcurrency(key="tool", key_limit=3)),
    ("{key_limit: 2, weight: 2}", ToolConcurrency(key="tool", key_limit=2, weight=2)),
    ("{collision: reject}", ToolConcurrency(key="tool", collision=CollisionPolicy.REJECT)),
    (
        "{collision: single_flight}\neffect: read",
        ToolConcurrency(key="params", collision=CollisionPolicy.SINGLE_FLIGHT),
    ),
    (
        "{collision: single_flight, key: params.url}\nidempotent: true\neffect: write",
        ToolConcurrency(key="params.url", collision=CollisionPolicy.SINGLE_FLIGHT),
    ),
    ("{breaker: {}}", ToolConcurrency(breaker=BreakerPolicy(5, 30.0, 1))),
    (
        "{breaker: {failures: 2, reset_after: 1, probes: 3.0}}",
        ToolConcurrency(breaker=BreakerPolicy(2, 1.0, 3)),
    ),
    *(
        (
            f"{{collision: {policy.value}, key: tool}}\neffect: read",
            ToolConcurrency(key="tool", collision=policy),
        )
        for policy in CollisionPolicy
    ),
]
REFUSED = [
    ("3", (6, 14), "", "expected a mapping, got the number 3"),
    ("{weight: 0}", (6, 23), "weight", "at least 1"),
    ("{weight: 1e+300}", (6, 23), "weight", "at most 9007199254740991"),
    ("{priority: 1.5}", (6, 25), "priority", "expected a whole number"),
    ("{priority: -1e+300}", (6, 25), "priority", "at least -9007199254740991"),
    ("{bucket: ''}", (6, 23), "bucket", "empty"),
    ("{colision: queue}", (6, 15), "colision", "did you mean 'collision'"),
    ("{zzz: 1}", (6, 15), "zzz", "the keys here are bucket, priority, weight, queue_timeout, key"),
    ("{queue_timeout: 0}", (6, 30), "queue_timeout", "more than 0"),
    ("{queue_timeout: 5s}", (6, 30), "queue_timeout", "without quotes or unit"),
    ("{queue_timeout: null}", (6, 30), "queue_timeout", "give it a value or remove the key"),
    ("{key: convrsation_id}", (6, 20), "key", "did you mean 'conversation_id'"),
    ("{key: zzz}", (6, 20), "key", "expected one of tool, conversation_id, caller_id, workflow_id"),
    ("{key: [tool]}", (6, 20), "key", "expected text, got a list"),
    ("{key: params.}", (6, 20), "key", "expected one of"),
    ("{key: params.ulr}", (6, 20), "key", "'ulr', which is not declared; did you mean 'url'?"),
    ("{key: params.zzz}", (6, 20), "key", "not declared; the parameters are url, 页码"),
    ("{key: params.url.host}", (6, 20), "key", "'url.host', which is not declared"),
    ("{key_limit: 0}", (6, 26), "key_limit", "at least 1"),
    ("{key_limit: two}", (6, 26), "key_limit", "expected a whole number"),
    ("{key_limit: true}", (6, 26), "key_limit", "expected a whole number"),
    ("{weight: 3, key_limit: 2}", (6, 37), "key_limit", "less than the weight 3, so that no call"),
    ("{collision: cancel-in-progress}", (6, 26), "collision", "mean 'cancel_in_progress'"),
    ("{collision: 1}", (6, 26), "collision", "expected one of queue, reject, cancel_in_progress"),
    (
        "{collision: single_flight}",
        (6, 26),
        "collision",
        "would share one effect; add effect: read",
    ),
    (
        "{collision: single_flight}\neffect: write\nidempotent: false",
        (6, 26),
        "collision",
        "or idempotent: true, or choose another collision",
    ),
    (
        "{collision: single_flight, key_limit: 2}\neffect: read",
        (6, 41),
        "key_limit",
        "no meaning with single_flight",
    ),
    ("{breaker: 5}", (6, 24), "breaker", "expected a mapping, got the number 5"),
    ("{breaker: {failurs: 5}}", (6, 25), "breaker.failurs", "did you mean 'failures'"),
    ("{breaker: {failures: 0}}", (6, 35), "breaker.failures", "at least 1"),
    ("{breaker: {reset_after: 0}}", (6, 38), "breaker.reset_after", "more than 0"),
    ("{breaker: {probes: 1.5}}", (6, 33), "breaker.probes", "expected a whole number"),
]


@pytest.mark.parametrize(("text", "limits"), ACCEPTED)
def test_accepted(text: str, limits: ToolConcurrency) -> None:
    """C20, C22: each key reaches the tool; what goes with it is filled in."""
    loaded = ToolConfigLoader().load_text(tool(text)).concurrency
    assert loaded == limits
    numbers = [loaded.priority, loaded.weight, loaded.key_limit or 1]
    assert [type(number) for number in numbers] == [int, int, int]
    assert type(loaded.collision) is CollisionPolicy


@pytest.mark.parametrize(("text", "place", "path", "words"), REFUSED)
def test_refused(text: str, place: tuple[int, int], path: str, words: str) -> None:
    """C22, K3: what is wrong is refused with file, line, column, path and cure, once."""
    with pytest.raises(DefinitionError) as caught:
        ToolConfigLoader().load_text(tool(text), "x.yaml")
    (problem,) = caught.value.problems
    assert (problem.file, problem.line, problem.column) == ("x.yaml", *place)
    assert problem.path == (f"concurrency.{path}" if path else "concurrency")
    assert words in problem.message


def test_all_faults_at_once() -> None:
    """K3: one look shows every wrong limit."""
    text = tool("{key: params.ulr, weight: 2, key_limit: 1, breaker: {probes: 0}, qeue_timeout: 1}")
    with pytest.raises(DefinitionError) as caught:
        ToolConfigLoader().load_text(text, "x.yaml")
    paths = [problem.path.removeprefix("concurrency.") for problem in caught.value.problems]
    assert paths == ["key", "key_limit", "breaker.probes", "qeue_timeout"]


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ("", "the tool has none"),
        ("parameters: []\n", "the tool has none"),
        ("parameters: [{name: a}, {name: b, type: 3}]\n", "the parameters are a, b"),
    ],
)
def test_keys_without_parameters(parameters: str, words: str) -> None:
    """C22: a key that names a parameter is told what there is, however wrong the parameters are."""
    text = f"name: t\ndescription: d\n{parameters}concurrency: {{key: params.zzz}}\n"
    with pytest.raises(DefinitionError) as caught:
        ToolConfigLoader().load_text(text)
    (message,) = [each.message for each in caught.value.problems if "key" in each.path]
    assert message == f"the key names the parameter 'zzz', which is not declared; {words}"


def test_unreadable_parameters_blame_no_key() -> None:
    """K3: where the parameters cannot be read, nothing is said about a key that names one."""
    text = "name: t\ndescription: d\nparameters: 3\nconcurrency: {key: params.url}\n"
    with pytest.raises(DefinitionError) as caught:
        ToolConfigLoader().load_text(text)
    assert [problem.path for problem in caught.value.problems] == ["parameters"]


@pytest.mark.parametrize(
    ("rate", "start"),
    [
        ("fast", "the text 'fast' is not allowed; "),
        ("10", "the number 10; write it as 10/s"),
        ("0/s", "the text '0/s' is not allowed; "),
        ("1/0s", "not a rate: '1/0s'; "),
        ("1/0.0min", "not a rate: '1/0.0min'; "),
    ],
)
def test_rates_are_refused_once(rate: str, start: str) -> None:
    """C17: a wrong rate is one problem, which says how a rate is written."""
    with pytest.raises(DefinitionError) as caught:
        ToolConfigLoader().load_text(f"name: t\ndescription: d\nrate: {rate}\n")
    (problem,) = caught.value.problems
    assert start in problem.message
    if not problem.message.endswith("quote it"):
        assert "write it as 10/s, 100/min, 1000/h or 5/2s" in problem.message


@pytest.mark.parametrize(
    "concurrency",
    [
        {"key": "params.url", "collision": CollisionPolicy.REJECT, "breaker": {"failures": 2}},
        {"key_limit": 3, "queue_timeout": 1.5},
    ],
)
def test_limits_of_a_mapping(concurrency: dict[str, Any]) -> None:
    """R2: a definition written in code has the same limits, policies given as members included."""
    mapping = {
        "name": "t",
        "description": "d",
        "parameters": [{"name": "url", "type": "string", "description": "d"}],
        "concurrency": concurrency,
    }
    loader = ToolConfigLoader()
    loaded = loader.from_mapping(mapping)
    assert loader.load_text(loader.export_to_yaml(loaded)).concurrency == loaded.concurrency


def test_equal_limits_have_equal_hashes() -> None:
    """U10: what is filled in is part of what the tool is; two ways to say it are one tool."""
    loader = ToolConfigLoader()
    short = loader.load_text(tool("{collision: reject}"))
    long = loader.load_text(tool("{collision: reject, key: tool, key_limit: 1}"))
    other = loader.load_text(tool("{collision: reject, key: params}"))
    assert short.definition_hash == long.definition_hash != other.definition_hash
    whole = loader.load_text(tool("{queue_timeout: 3, breaker: {reset_after: 5}}"))
    same = loader.load_text(tool("{queue_timeout: 3.0, breaker: {reset_after: 5.0}}"))
    assert whole.definition_hash == same.definition_hash
