"""The studio: what runs, waits and has run, and any tool to try, in a browser.

`tool_engine.server.create_app(engine, studio=True)` serves it at `/studio`. All that it shows and
does it asks of the HTTP API, with the rights of the principal that is signed in.
"""

from tool_engine.errors import MissingExtraError

try:
    from tool_engine.studio.site import Studio
except ImportError as error:
    raise MissingExtraError(
        f"{error.name} is not installed: pip install 'tool-engine[server]'"
    ) from error

__all__ = ["Studio"]
