"""What is particular to keeping approvals in memory: bounds."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contracts.test_approval_storage_contract import request_for
from tool_engine.errors import ConfigurationError, SessionError
from tool_engine.knowledge.memory_approvals import (
    MemoryApprovalStorage,
    decision_of,
    request_of,
    said_of,
)
from tool_engine.model.approval import ApprovalDecision

YES = ApprovalDecision(is_approved=True)


async def test_the_oldest_go() -> None:
    """Of more requests or decisions than may be, the oldest are forgotten: somebody asks again."""
    storage = MemoryApprovalStorage(max_requests=2)
    for number in range(3):
        request = request_for(token=f"t-{number}", params={"number": number}, asked_at=number)
        await storage.put(request)
        await storage.remember(request, YES)
    assert [each.token for each in await storage.pending()] == ["t-1", "t-2"]
    first = request_for(params={"number": 0}).fingerprint
    assert await storage.remembered("chat", first) is None
    assert repr(storage) == "<MemoryApprovalStorage 2 open, 2 decisions>"


@pytest.mark.parametrize("bound", [0, True, "9"])
def test_bound_that_cannot_be(bound: Any) -> None:
    """A bound that makes no sense is refused."""
    with pytest.raises(ConfigurationError, match="max_requests"):
        MemoryApprovalStorage(bound)


def test_what_another_version_wrote() -> None:
    """It is told, and never taken for a consent."""
    for read in (request_of, decision_of):
        with pytest.raises(SessionError, match="delete the session 's'"):
            read({"is_approved": "perhaps"}, "s")
    assert decision_of(said_of(YES), "s").is_remembered is True
