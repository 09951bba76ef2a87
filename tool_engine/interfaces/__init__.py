"""Where can a part be plugged in, and what must it keep to?

Each extension point is a Protocol with a file of its own. Its contract stands there once, and one
contract suite in `tests/contracts` holds every implementation to it.
"""

from tool_engine.interfaces.admission import (
    AdmissionController,
    AdmissionUser,
    Slot,
    SlotRequest,
)
from tool_engine.interfaces.approver import Approver, Front
from tool_engine.interfaces.backend import ExecutionBackend, Run
from tool_engine.interfaces.callbacks import EventCallback, FindCall, SearchTools
from tool_engine.interfaces.catalog_source import CatalogSource, ListedTool
from tool_engine.interfaces.executor import ToolExecutor
from tool_engine.interfaces.model import ChatModel
from tool_engine.interfaces.protocol import ReplyDecoder, ToolCallingProtocol
from tool_engine.interfaces.scope import CallScope
from tool_engine.interfaces.source import CallsTools, Source, ToolSource
from tool_engine.interfaces.storage import (
    ApprovalStorage,
    EventLife,
    EventStorage,
    RecordStorage,
    SessionStorage,
    StandingStorage,
)

__all__ = [
    "AdmissionController",
    "AdmissionUser",
    "ApprovalStorage",
    "Approver",
    "CallScope",
    "CallsTools",
    "CatalogSource",
    "ChatModel",
    "EventCallback",
    "EventLife",
    "EventStorage",
    "ExecutionBackend",
    "FindCall",
    "Front",
    "ListedTool",
    "RecordStorage",
    "ReplyDecoder",
    "Run",
    "SearchTools",
    "SessionStorage",
    "Slot",
    "SlotRequest",
    "Source",
    "StandingStorage",
    "ToolCallingProtocol",
    "ToolExecutor",
    "ToolSource",
]
