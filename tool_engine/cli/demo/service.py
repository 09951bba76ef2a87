"""Which offline web service do the tools of the demo call?"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from aiohttp import web

HOST: Final = "127.0.0.1"
_MAX_SECONDS: Final = 5.0
_WEATHER: Final = {"beijing": (21.5, "sunny"), "london": (12.0, "rain"), "oslo": (-3.0, "snow")}
"""City -> degrees Celsius and conditions."""


@asynccontextmanager
async def demo_service() -> AsyncIterator[int]:
    """Serve on a free loopback port while the block runs.

    Yields:
        The port. `/weather?city=Oslo` knows some cities, `/status` answers at once, and
        `/work?seconds=1` takes its time.
    """
    app = web.Application()
    app.router.add_get("/weather", _answer_weather)
    app.router.add_get("/status", _answer_status)
    app.router.add_get("/work", _answer_work)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.5)
    await runner.setup()
    try:
        await web.TCPSite(runner, HOST, 0).start()
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()


async def _answer_weather(request: web.Request) -> web.Response:
    city = request.query.get("city", "")
    known = _WEATHER.get(city.casefold())
    if known is None:
        return web.json_response({"error": f"unknown city {city!r}"}, status=404)
    temperature, conditions = known
    return web.json_response({"city": city, "temperature": temperature, "conditions": conditions})


async def _answer_status(request: web.Request) -> web.Response:
    return web.json_response({"status": "up", "path": request.path})


async def _answer_work(request: web.Request) -> web.Response:
    try:
        seconds = float(request.query.get("seconds", "0"))
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= _MAX_SECONDS:
        text = f"seconds must be a number from 0 to {_MAX_SECONDS:g}"
        return web.json_response({"error": text}, status=400)
    await asyncio.sleep(seconds)
    return web.json_response({"worked": seconds})
