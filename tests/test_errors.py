"""Do the exceptions say who must act, where, and under which name?"""

from __future__ import annotations

import inspect

import pytest

from tool_engine import ErrorType, errors
from tool_engine.errors import (
    AdmissionError,
    ConfigurationError,
    DefinitionError,
    DefinitionProblem,
    DuplicateToolError,
    QueueTimeoutError,
    ToolEngineError,
    ToolExecutionError,
)

FAMILY = [
    value
    for value in vars(errors).values()
    if inspect.isclass(value)
    and issubclass(value, Exception)
    and value.__module__ == errors.__name__
]


@pytest.mark.parametrize("kind", FAMILY, ids=lambda kind: kind.__name__)
def test_family(kind: type[ToolEngineError]) -> None:
    """Each exception ends in Error, has the one root, and an error type of its own."""
    assert kind.__name__.endswith("Error")
    assert issubclass(kind, ToolEngineError)
    assert kind.error_type == kind.error_type.lower()


@pytest.mark.parametrize("kind", [k for k in FAMILY if issubclass(k, AdmissionError)])
def test_refusals_are_error_types_of_results(kind: type[AdmissionError]) -> None:
    """C7: a refusal carries the error type of the result that it becomes, and when to try again."""
    assert kind.error_type in {each.value for each in ErrorType}
    assert kind("full", retry_after=1.5).retry_after == 1.5
    assert kind("full").retry_after is None


def test_standard_bases() -> None:
    """What Python code already catches, it catches here."""
    assert issubclass(ConfigurationError, ValueError)
    assert issubclass(QueueTimeoutError, TimeoutError)
    assert issubclass(errors.ToolNotFoundError, LookupError)
    assert issubclass(errors.MissingExtraError, ImportError)


def test_definition_error() -> None:
    """U13: file, line, column and path of the first problem; the text has them all."""
    first = DefinitionProblem("is wrong", "a.yaml", 3, 5, "parameters[0].type")
    second = DefinitionProblem("is missing", "<code>")
    error = DefinitionError(first, second)
    assert (error.file, error.line, error.column) == ("a.yaml", 3, 5)
    assert error.path == "parameters[0].type"
    assert error.problems == (first, second)
    assert str(error) == "a.yaml:3:5: parameters[0].type: is wrong\n<code>: is missing"
    assert issubclass(DuplicateToolError, DefinitionError)


def test_definition_error_needs_a_problem() -> None:
    """An error about nothing is a mistake of the programmer."""
    with pytest.raises(TypeError, match="at least one problem"):
        DefinitionError()


def test_execution_error_details() -> None:
    """K27: a handler's own error may carry details."""
    assert ToolExecutionError("no", details={"a": 1}).details == {"a": 1}
    assert ToolExecutionError("no").details == {}
