"""What do programs of a whole run load, once for all of them?

Whoever runs a single test waits for none of it: `warm.WARM` is what most programs need.
"""

from importlib import import_module

from tests.warm import SDK
from tool_engine.cli.command_list import COMMANDS

LOADED = (
    *SDK,
    *(f"tool_engine.cli.{room}.{name}_command" for name, (room, _) in COMMANDS.items()),
    "asyncpg",
    "openai",
    "sqlalchemy.dialects.postgresql.asyncpg",
    "tool_engine.agent.models.openai",
    "tool_engine.background.tasks",
    "tool_engine.executors.files.editing",
    "tool_engine.executors.http.http_executor",
    "tool_engine.executors.sql.sql_executor",
    "tool_engine.executors.workflow.workflow_executor",
    "tool_engine.protocols.gemini",
    "tool_engine.protocols.vcp",
    "tool_engine.server.app",
    "tool_engine.studio.site",
    "tool_engine.testing.simulation",
)

for module in LOADED:
    import_module(module)
