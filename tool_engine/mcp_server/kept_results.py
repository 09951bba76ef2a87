"""Where does a client read the whole of a result that was cut?"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from tool_engine.interfaces.source import Source
from tool_engine.mcp_server.listing import Listing
from tool_engine.mcp_server.long_answers import write_long
from tool_engine.model.call import ToolExecutionResult
from tool_engine.model.json.returned_value import to_text
from tool_engine.model.permission import ResultPolicy

_URI: Final = re.compile(r"tool-engine://results/([A-Za-z0-9._-]{1,128})/([A-Za-z0-9_-]{22})")
_LINKS_SINCE: Final = "2025-06-18"
"""The first revision whose clients know links."""
_LABEL: Final = b"tool-engine/kept-result/v1"


class KeptResults:
    """Links to whole results, each of which one principal can follow while the result is kept.

    A link has a seal of the call and the principal, so nothing has to be remembered of it.

    Args:
        engine: Where the results are kept.
        keys: The secrets of the seals, the newest first.
        listing: The tools whose results a client may read.
    """

    def __init__(self, engine: Source, keys: Sequence[bytes], listing: Listing) -> None:
        self._engine = engine
        self._listing = listing
        self._keys = keys

    def link(
        self, result: ToolExecutionResult, principal: str | None, revision: str
    ) -> dict[str, Any] | None:
        """Return the link to the whole of a cut result, as it stands on the wire; else None."""
        cut: Mapping[str, Any] | None = result.metadata.get("cut")
        if cut is None or not result.is_success or revision < _LINKS_SINCE:
            return None
        call_id = str(cut["call_id"])
        seal = _make_seal(self._keys[0], call_id, principal)
        what = "The whole result" if cut["is_kept_whole"] else "The beginning of the result"
        return {
            "type": "resource_link",
            "uri": f"tool-engine://results/{call_id}/{seal}",
            "name": f"result of {result.tool_name}",
            "description": f"{what} of the call {call_id}, which is shortened here.",
        }

    async def read(self, uri: str, principal: str | None) -> dict[str, Any] | None:
        """Return a kept result as it stands on the wire; None: there is none for this principal."""
        found = _URI.fullmatch(uri)
        if found is None:
            return None
        call_id, sent = found.groups()
        seals = [_make_seal(key, call_id, principal) for key in self._keys]
        if not any(hmac.compare_digest(sent, seal) for seal in seals):
            return None
        record = await self._engine.store.get_whole(call_id)
        if record is None or not record.is_success or self._is_withheld(record.tool_name):
            return None
        handed_over = [record.result]
        del record

        def write() -> dict[str, Any]:
            # In a thread, which also frees it: a result may have a million entries.
            kind, text = _write_output(handed_over)
            return {"uri": uri, "mimeType": kind, "text": text}

        content: dict[str, Any] = await write_long(write)
        return content

    def _is_withheld(self, tool_name: str) -> bool:
        """Return True if the client may not read the results, as the definition is now."""
        tool = self._engine.get(tool_name)
        said = None if tool is None else tool.permission
        if tool is None or self._listing.show_tool(tool) is None:
            return True
        return said is not None and said.result is ResultPolicy.ALWAYS


def _write_output(handed_over: list[Any]) -> tuple[str, str]:
    output = handed_over.pop()
    if isinstance(output, Mapping) and output.keys() == {"result"}:
        output = output["result"]
    if isinstance(output, str):
        return "text/plain", output
    return "application/json", to_text(output)


def _make_seal(key: bytes, call_id: str, principal: str | None) -> str:
    said = json.dumps([call_id, principal]).encode()
    made = hmac.digest(hmac.digest(key, _LABEL, hashlib.sha256), said, hashlib.sha256)
    return base64.urlsafe_b64encode(made[:16]).decode().rstrip("=")
