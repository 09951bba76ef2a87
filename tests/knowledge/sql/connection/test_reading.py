"""What does a reader hear of a database that ends while it connects?"""

from __future__ import annotations

import asyncio

import pytest
from sqlalchemy import text

from tool_engine.errors import RecordsUnavailableError
from tool_engine.knowledge.sql.connection.address import Address
from tool_engine.knowledge.sql.reader import Reader

TLS_LENGTH = 8
"""Bytes with which a client asks for TLS."""


@pytest.mark.parametrize("answer", [b"", b"R", b"R\0\0\0\x08\0\0\0\0"])
async def test_a_server_that_ends_while_one_connects(answer: bytes) -> None:
    """Whatever of its answer is there by then, it is a database that does not answer."""

    async def end_soon(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(await reader.read(1 << 10)) == TLS_LENGTH:
            writer.write(b"N")
            await reader.read(1 << 10)
        writer.write(answer)
        await writer.drain()
        writer.transport.abort()

    server = await asyncio.start_server(end_soon, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    asked = Reader(Address("postgresql", f"postgresql://owner:word@127.0.0.1:{port}/tests"))
    try:
        with pytest.raises(RecordsUnavailableError, match="cannot be read"):
            await asked.rows(text("SELECT 1"))
    finally:
        await asked.close()
        server.close()
