"""Which result limits does a definition describe, and do they make sense?"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final

from tool_engine.catalog.definition.fault import Fault
from tool_engine.model.result import CutStrategy, ResultLimits, ResultShow

_COUNTS: Final = ("max_chars", "max_items", "limit")


def limit_faults(spec: Any) -> list[Fault]:
    if not isinstance(spec, dict):
        return []
    faults: list[Fault] = []
    select = spec.get("select")
    if isinstance(select, str) and select.strip():
        # Loaded on first use: few definitions select.
        jmespath = import_module("jmespath")
        try:
            jmespath.compile(select)
        except (jmespath.exceptions.JMESPathError, RecursionError, ValueError) as error:
            reason = " ".join(str(error).split()) or type(error).__name__
            message = f"not a JMESPath expression: {reason[:200]}"
            faults.append(Fault(("result", "select"), message, cure="correct it"))
    if "strategy" in spec and not {"max_chars", "max_items"} & set(spec):
        message = "strategy says what stays where a limit cuts, and there is none"
        cure = "add max_chars or max_items, or remove it"
        faults.append(Fault(("result", "strategy"), message, at_key=True, cure=cure))
    return faults


def build_limits(spec: Mapping[str, Any]) -> ResultLimits:
    values = {key: int(spec[key]) for key in _COUNTS if key in spec}
    strategy = CutStrategy(spec.get("strategy", CutStrategy.HEAD_TAIL))
    show = ResultShow(spec["show"]) if "show" in spec else None
    return ResultLimits(strategy=strategy, select=spec.get("select"), show=show, **values)
