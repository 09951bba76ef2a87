"""How does a tool run that is made of calls of other tools?"""

from __future__ import annotations

from typing import Any

from tool_engine.errors import ToolExecutionError
from tool_engine.executors.entry_reader import CompiledEntries
from tool_engine.executors.workflow.linked import broken_links
from tool_engine.executors.workflow.run import run_workflow
from tool_engine.executors.workflow.workflow_entry import Workflow, compile_entry
from tool_engine.model.call import ToolExecutionContext
from tool_engine.model.tool import Tool


class WorkflowExecutor:
    """The executor of `run_workflow`: the steps of `entry.steps`, in order.

    Each step is a call of its own, with its own slot, deadline, record and events; the record names
    the workflow's call as its parent. A workflow with a step that cannot succeed, because the tools
    of the catalog do not fit it, fails before it does anything.
    """

    def __init__(self) -> None:
        self._workflows: CompiledEntries[Workflow] = CompiledEntries(compile_entry)

    async def execute(
        self, tool: Tool, params: dict[str, Any], context: ToolExecutionContext
    ) -> Any:
        """Return `entry.output`, or else the last step's output."""
        workflow = self._workflows.of(tool)
        if broken := broken_links(tool):
            raise ToolExecutionError(
                f"the workflow does not fit the tools that are there, and did nothing: "
                f"{'; '.join(broken)}"
            )
        return await run_workflow(workflow, params, context)
