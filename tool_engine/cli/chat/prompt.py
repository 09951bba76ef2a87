"""How does a person type a turn at a terminal?

With the arrow keys through what was said before, with an editable line, and with a paste as one
turn, however many lines it has. In between, the terminal is as it was: others ask there too.
"""

from __future__ import annotations

import os
import signal
import sys

from prompt_toolkit import PromptSession
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output.vt100 import Vt100_Output

from tool_engine.cli.chat.input import Said


class TypedWords(Said):
    """What a person types, asked for with `>`."""

    def __init__(self) -> None:
        super().__init__(None)
        output = Vt100_Output.from_pty(sys.stdout, term=os.environ.get("TERM"))
        # It would ask each time where the cursor is, which only menus need.
        output.enable_cpr = False
        self._session: PromptSession[str] = PromptSession(
            output=output, key_bindings=_bind_keys(), enable_suspend=True
        )

    async def next(self) -> str | None:
        """Return the next turn; None: the end; empty: an empty line.

        Raises:
            CommandError: It has more than 1,000,000 bytes.
        """
        try:
            # Ctrl-C belongs to the conversation, also from outside of this terminal.
            typed = await self._session.prompt_async(
                "> ", handle_sigint=False, set_exception_handler=False
            )
        except EOFError:
            return None
        return self.take(os.fsencode(typed))


def _bind_keys() -> KeyBindings:
    keys = KeyBindings()

    @keys.add("c-c")
    def interrupt(event: KeyPressEvent) -> None:
        del event
        signal.raise_signal(signal.SIGINT)

    return keys
