"""What does a parameter cost that is a model of pydantic?"""

from __future__ import annotations

from contextlib import AsyncExitStack

from pydantic import BaseModel, Field, TypeAdapter

from tests.benchmarks import report
from tests.benchmarks.measure import measure_often, median_of
from tests.benchmarks.rows import Row
from tool_engine import ToolEngine, ToolEngineConfig

__all__ = ["models"]

PLAIN = "a dict"
BY_HAND = "validate_python + a dict"
MODEL = "a model of pydantic"
BUDGET = 1.2
"""Times pydantic's own `validate_python` and the plain call."""
_ORDER = {"number": 7, "lines": [{"name": "a", "price": 1.5}, {"name": "b", "price": 2.5}]}


class Line(BaseModel):
    name: str = Field(min_length=1)
    price: float = Field(ge=0)


class Order(BaseModel):
    number: int
    lines: list[Line]


async def models(directory: str) -> bool:
    """Measures calls with a model; whether they keep their budget."""
    async with AsyncExitStack() as stack:
        config = ToolEngineConfig(tools_directory=directory, auto_reload=False)
        engine = await stack.enter_async_context(ToolEngine(config))
        rows = _rows(engine)
        runs = await measure_often(rows)
    ratio = median_of(runs, MODEL, BY_HAND)
    report.calls("One call with an object", [*runs[-1].values()], runs[-1][PLAIN], [])
    return report.budget(f"{MODEL} / {BY_HAND}", ratio, BUDGET, "x")


def _rows(engine: ToolEngine) -> list[Row]:
    adapter = TypeAdapter(Order)

    @engine.tool(effect="read")
    async def take_dict(order: dict[str, object]) -> int:
        """Takes an order as it is."""
        return len(order)

    @engine.tool(effect="read")
    async def take_model(order: Order) -> int:
        """Takes an order as its model."""
        return len(order.lines)

    async def plain(n: int) -> None:
        for _ in range(n):
            await engine.execute("take_dict", {"order": _ORDER})

    async def by_hand(n: int) -> None:
        for _ in range(n):
            adapter.validate_python(_ORDER)
            await engine.execute("take_dict", {"order": _ORDER})

    async def model(n: int) -> None:
        for _ in range(n):
            await engine.execute("take_model", {"order": _ORDER})

    everything = "look-up, validation, limit, queue, deadline, record, result"
    return [
        Row(PLAIN, everything, plain),
        Row(BY_HAND, "the same; pydantic's own validation", by_hand),
        Row(MODEL, "the same; the schema of the model", model),
    ]
