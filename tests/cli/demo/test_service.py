"""The demo's web service is a real one, on a free port of the loopback address."""

import aiohttp
import pytest

from tool_engine.cli.demo.service import HOST, demo_service


@pytest.mark.parametrize(
    ("path", "status", "part"),
    [
        ("/weather?city=Oslo", 200, '"temperature": -3.0, "conditions": "snow"'),
        ("/weather?city=nowhere", 404, "unknown city"),
        ("/status", 200, '"up"'),
        ("/work?seconds=0", 200, '"worked": 0.0'),
        ("/work?seconds=nan", 400, "seconds must be"),
        ("/work?seconds=x", 400, "seconds must be"),
    ],
)
async def test_the_service_answers(path: str, status: int, part: str) -> None:
    """Every address of the service answers with JSON, wrong arguments too."""
    async with (
        demo_service() as port,
        aiohttp.ClientSession() as session,
        session.get(f"http://{HOST}:{port}{path}") as response,
    ):
        assert response.status == status
        assert part in await response.text()


async def test_the_port_is_free_again_afterwards() -> None:
    """Nothing listens when the block has ended."""
    async with demo_service() as port:
        pass
    async with aiohttp.ClientSession() as session:
        with pytest.raises(aiohttp.ClientConnectorError):
            await session.get(f"http://{HOST}:{port}/status")
