"""U23: do the dashboard and the alert rules ask for metrics that there are?"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families as parse

from tests.observability.telemetry import sample_engine
from tool_engine import ErrorType, Outcome, ToolEngineEventType
from tool_engine.observability.prometheus import instrument

FOLDER = Path(__file__).parents[2] / "docs" / "dashboards"
DASHBOARD = json.loads((FOLDER / "tool-engine.json").read_text())
RULES = [
    rule
    for group in yaml.safe_load((FOLDER / "alerts.yaml").read_text())["groups"]
    for rule in group["rules"]
]
TARGETS = [
    (panel["title"], target["expr"]) for panel in DASHBOARD["panels"] for target in panel["targets"]
]
EXPRESSIONS = [expr for _, expr in TARGETS] + [rule["expr"] for rule in RULES]
EXPRESSIONS += [each["definition"] for each in DASHBOARD["templating"]["list"]]

METRIC = re.compile(r"\b(tool_\w+)\b(?:\{([^}]*)\})?")
MATCHER = re.compile(r'(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"')
GROUPING = re.compile(r"\bby \(([^)]*)\)")
LABEL_ASKED_FOR = re.compile(r"\A(label_values\(.*), (\w+)\)\Z")
VALUES = {
    "status": {outcome.value for outcome in Outcome},
    "error_type": {kind.value for kind in ErrorType},
    "event": {kind.value for kind in ToolEngineEventType},
}
SERVER_LABELS = {"job", "instance"}
"""What Prometheus adds to every series."""


async def exported() -> dict[str, set[str]]:
    """The labels of every series that an engine exports."""
    engine, _ = sample_engine(max_concurrent=2, bucket_limits={"custom": 2})
    found: dict[str, set[str]] = {}
    with instrument(engine) as metrics:
        for name in ("plain", "fails", "flaky"):
            await engine.execute(name)
        for family in parse(generate_latest(metrics.registry).decode()):
            for sample in family.samples:
                found.setdefault(sample.name, set()).update(sample.labels)
    await engine.close()
    return found


def asked_for(expr: str) -> dict[str, set[str]]:
    """The metrics in an expression, each with the labels that it is filtered by."""
    found: dict[str, set[str]] = {}
    plain = LABEL_ASKED_FOR.sub(r"\1)", GROUPING.sub("", expr))
    for name, matchers in METRIC.findall(plain):
        found.setdefault(name, set()).update(label for label, _, _ in MATCHER.findall(matchers))
    return found


def test_reading_expressions() -> None:
    """The reading of expressions sees metrics and labels, and takes no label for a metric."""
    expr = 'sum by (tool_name) (rate(tool_a_total{tool_name=~"x", b="y"}[5m])) / tool_c > 0.5'
    assert asked_for(expr) == {"tool_a_total": {"tool_name", "b"}, "tool_c": set()}
    expr = 'label_values(tool_a_total{b=~"$b"}, tool_name)'
    assert asked_for(expr) == {"tool_a_total": {"b"}}
    assert asked_for("tool_a == 0") == {"tool_a": set()}


@pytest.mark.parametrize("expr", sorted(set(EXPRESSIONS)))
async def test_expressions(expr: str) -> None:
    """Each metric and each label that is asked for is exported, and each value can occur."""
    series = await exported()
    asked = asked_for(expr)
    assert asked, expr
    labels: set[str] = set()
    for name, filters in asked.items():
        assert name in series, f"{name} is not exported"
        assert filters <= series[name] | SERVER_LABELS, f"{name} has no {filters - series[name]}"
        labels |= series[name]
    if match := LABEL_ASKED_FOR.match(expr):
        assert match[2] in labels | SERVER_LABELS
    for group in GROUPING.findall(expr):
        assert {each.strip() for each in group.split(",")} <= labels | SERVER_LABELS
    for label, operator, text in MATCHER.findall(expr):
        if label in VALUES and not text.startswith("$"):
            assert operator in ("=", "=~")
            assert set(text.split("|")) <= VALUES[label]
    assert expr.count("(") == expr.count(")")
    assert expr.count("{") == expr.count("}")


@pytest.mark.parametrize(
    ("metric", "threshold"),
    [
        ("tool_concurrent_count", "> 0.8"),
        ("tool_queue_length", "> 0.5"),
        ('status="rejected"', "> 0.1"),
        ('status="timeout"', "> 0.05"),
    ],
)
def test_thresholds(metric: str, threshold: str) -> None:
    """U23: slots over 80 %, queue over 50 %, refused over 10 %, out of time over 5 %."""
    (rule,) = [rule for rule in RULES if metric in rule["expr"] and "zombie" not in rule["expr"]]
    assert rule["expr"].endswith(threshold)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_rules(rule: dict[str, Any]) -> None:
    """Each rule has what Prometheus wants, and says what to do."""
    assert set(rule) | {"for"} == {"alert", "expr", "for", "labels", "annotations"}
    assert re.fullmatch(r"[A-Z]\w+", rule["alert"])
    assert re.fullmatch(r"\d+[smh]", rule.get("for", "0s"))
    assert rule["labels"]["severity"] in {"warning", "critical"}
    assert set(rule["annotations"]) == {"summary", "description"}


def test_dashboard() -> None:
    """The dashboard is one that Grafana imports: panels apart, each with its data source."""
    assert DASHBOARD["id"] is None
    assert DASHBOARD["schemaVersion"] >= 39
    assert [each["pluginId"] for each in DASHBOARD["__inputs"]] == ["prometheus"]
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert place["x"] + place["w"] <= 24
        taken |= cells
        assert panel["type"] in {"stat", "timeseries"}
        sources = [panel, *panel["targets"]]
        assert all(each["datasource"]["uid"] == "${DS_PROMETHEUS}" for each in sources)
        assert panel["description"]
