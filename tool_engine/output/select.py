"""Which part of what a tool returned is its output?"""

from __future__ import annotations

from typing import Any

import jmespath
from jmespath.exceptions import JMESPathError

from tool_engine.errors import ToolExecutionError


def select_output(expression: str, value: Any) -> Any:
    """Return what the JMESPath `expression` picks from JSON `value`; None: nothing.

    Raises:
        ToolExecutionError: A function of the expression does not fit the value.
    """
    try:
        return jmespath.compile(expression).search(value)
    except (JMESPathError, RecursionError, TypeError, ValueError, ArithmeticError) as error:
        raise ToolExecutionError(
            f"the tool has run, but its output does not fit result.select: {error}; correct the "
            "expression in its definition"
        ) from error
