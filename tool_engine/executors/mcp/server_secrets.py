"""How do the secrets that a server is reached with get into its settings?"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from tool_engine.executors.mcp.server_settings import MCPServerSettings
from tool_engine.executors.secrets import SecretPart, SecretScope
from tool_engine.redaction.secret_names import is_secret_key

_SECRET: Final = re.compile(r"\$\{(env|file):([^}]+)\}")


async def put_in_secrets(settings: MCPServerSettings, scope: SecretScope) -> MCPServerSettings:
    """Return the settings with values in the place of `${env:NAME}` and `${file:/path}`.

    They are hidden from now on, and so is each header and variable that is named like a secret.

    Raises:
        ToolExecutionError: A variable is not set, or a file cannot be read.
    """
    texts = (*settings.env.values(), *settings.headers.values())
    parts = [SecretPart(name, kind) for text in texts for kind, name in _SECRET.findall(text)]
    await scope.read_files(parts)
    for name, text in (*settings.env.items(), *settings.headers.items()):
        if is_secret_key(name) and not _SECRET.search(text):
            scope.hide_value(text.removeprefix("Bearer "))
    return replace(
        settings, env=_put_in(settings.env, scope), headers=_put_in(settings.headers, scope)
    )


def _put_in(values: Mapping[str, str], scope: SecretScope) -> dict[str, str]:
    return {
        key: _SECRET.sub(lambda found: scope.resolve(SecretPart(found[2], found[1])), text)
        for key, text in values.items()
    }
