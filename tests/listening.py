"""When does a program that was started take connections?"""

from __future__ import annotations

import asyncio
import contextlib


async def wait_until_it_listens(
    process: asyncio.subprocess.Process, port: int, log: object = "how it was started"
) -> None:
    """Waits until a program takes connections at a port of this machine; fails if it has ended."""
    while True:
        with contextlib.suppress(OSError):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.close()
            return
        assert process.returncode is None, f"it has ended, see {log}"
        await asyncio.sleep(0.01)
