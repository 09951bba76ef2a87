"""Which conversation is wanted, and can there be one?"""

from __future__ import annotations

from shlex import quote
from typing import Final

import msgspec

from tool_engine.cli.documents import read_text
from tool_engine.cli.failures import CommandError
from tool_engine.redaction import redact_text

_NO_MODEL: Final = (
    "name one model: --model PROVIDER:NAME, such as openai:NAME, or --script FILE for a recorded "
    "one"
)


class ChatOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a conversation; None: not given."""

    message: str | None = None
    """The user's message; None: each line of stdin is a turn."""
    model: str | None = None
    script: str | None = None
    base_url: str | None = None
    protocol: str | None = None
    groups: str | None = None
    """The names of groups, with commas between."""
    enabled: str | None = None
    """The names of tools, with commas between, that are on even if their group has them off."""
    system: str = ""
    session_id: str | None = None
    sub_agents: int = 0
    is_confirmed: bool | None = None
    is_deferred: bool = False
    max_rounds: int | None = None
    is_streamed: bool = True

    def write_command(self, session_id: str) -> str:
        """Return the command line that goes on with a kept conversation as this one does."""
        said = {
            "--session": session_id,
            "--model": self.model,
            "--script": self.script,
            "--base-url": None if self.base_url is None else redact_text(self.base_url),
            "--protocol": self.protocol,
            "--groups": self.groups,
            "--enable": self.enabled,
        }
        words = (f"{name} {quote(value)}" for name, value in said.items() if value is not None)
        return " ".join(("tool-engine chat", *words))


def check_options(options: ChatOptions) -> None:
    if (options.model is None) == (options.script is None):
        raise CommandError(_NO_MODEL)
    is_recorded = options.script is not None or (options.model or "").startswith("recorded:")
    if is_recorded and options.base_url is not None:
        raise CommandError("--base-url goes with --model: a recorded model asks no server")
    if options.session_id is not None and not options.session_id.strip():
        raise CommandError("--session takes a name for the conversation, such as notes-1")
    if options.is_deferred and options.session_id is None:
        raise CommandError(
            "--defer keeps what must be asked with the conversation: name it with --session ID"
        )
    if options.message is not None and not options.message.strip():
        raise CommandError("the MESSAGE is empty; leave it out to say each turn on a line of stdin")
    if options.groups is not None and not split_names(options.groups):
        raise CommandError("--groups takes names of groups, such as web,files")
    if options.enabled is not None and not split_names(options.enabled):
        raise CommandError("--enable takes names of tools, such as write_file,edit_file")


def split_names(text: str) -> list[str]:
    return [each.strip() for each in text.split(",") if each.strip()]


def read_system(text: str) -> str:
    """Return `text`, or the file's text behind an `@`."""
    if not text.startswith("@"):
        return text
    try:
        return read_text(text[1:])
    except CommandError as error:
        raise CommandError(f"--system: {error}") from error
