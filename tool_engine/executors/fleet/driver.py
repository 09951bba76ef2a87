"""How does an engine reach Ray?

This is run as a process of its own, the only one that imports Ray: Ray ends the process that uses
it when its head is gone for a minute, prints, and takes over signals. The engine sends what is to
be done, as JSON; when it ends, this does, and with it all that runs for it on the fleet.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import socket
import sys
import tempfile
import threading
from concurrent.futures import Future
from typing import Any, Final

import msgspec
import ray
from ray._private import services
from ray._private.runtime_env.py_modules import upload_py_modules_if_needed
from ray._private.runtime_env.working_dir import upload_working_dir_if_needed
from ray.runtime_env import RuntimeEnv

from tool_engine.executors.fleet.actor import THREADS, FleetActor
from tool_engine.executors.fleet.frames import (
    BUNDLE,
    FrameWriter,
    read_bundle,
    read_frames,
    write_bundle,
)
from tool_engine.executors.fleet.reaching import check_answering
from tool_engine.executors.fleet.resources import choose_resources
from tool_engine.executors.fleet_entry import OPEN, list_secrets

_AT_ONCE: Final = 2
"""Requests to one worker at a time: one that waits for answers, and one that brings calls."""
_PULSE: Final = 5.0
"""Seconds between two looks whether the head answers."""
_PATIENCE: Final = 15.0
"""Seconds after which a head that does not answer is gone."""
_MOST_WORDS: Final = 300
_FROM_FILES: Final = ("pip", "uv", "conda")
"""What of a runtime environment may be the path of a file with packages."""
_UNHEARD: Final = "ray client connection timeout"
"""What Ray's client says where a head has not answered, or has refused it for its token."""


class Order(msgspec.Struct):
    """What the engine wants."""

    do: str
    """`join`, `start`, `kill`, `nodes` or `leave`."""
    address: str = ""
    worker: int = 0
    options: dict[str, Any] = {}
    seconds: float = 0.0
    """What workers have to end their processes, before they end with this one."""
    settings: msgspec.Raw = msgspec.Raw(b"")


_read_order: Final = msgspec.json.Decoder(Order).decode


class ShippingError(Exception):
    """What a runtime environment names cannot be brought to the fleet."""


class Driver:
    """Carries out what one engine wants of one fleet."""

    def __init__(self) -> None:
        self._links: dict[int, _Link] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._own_folder = ""
        self._is_ours = False
        self._make: Any = None
        self._ended = asyncio.Event()

    async def serve(self, connection: socket.socket) -> None:
        self.loop = asyncio.get_running_loop()
        self._writer = FrameWriter(connection)
        threading.Thread(target=self._read_engine, args=(connection,), daemon=True).start()
        await self._ended.wait()
        if self._is_ours:
            # Its processes are ours; all others see the end of this process.
            await asyncio.to_thread(ray.shutdown)
            shutil.rmtree(self._own_folder, ignore_errors=True)

    def say(self, **words: Any) -> None:
        self._writer.send(msgspec.json.encode(words))

    def pass_on(self, worker: int, bundle: bytes) -> None:
        """Send the engine what a worker says, from any thread."""
        if bundle:
            self._writer.send(write_bundle(worker, 0, bundle))

    def begin(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def forget(self, worker: int) -> None:
        self._links.pop(worker, None)

    def _read_engine(self, connection: socket.socket) -> None:
        """Take what the engine sends, in a thread: bundles go on without waking the loop."""
        for message in read_frames(connection):
            if message.startswith(BUNDLE):
                worker, calls, bundle = read_bundle(message)
                if (link := self._links.get(worker)) is not None:
                    link.send(calls, bundle)
            else:
                self.loop.call_soon_threadsafe(self._take_order, _read_order(message))
        self.loop.call_soon_threadsafe(self._ended.set)

    def _take_order(self, order: Order) -> None:
        link = self._links.get(order.worker)
        if order.do == "join":
            self.begin(self._join_fleet(order.address))
        elif order.do == "start":
            self._links[order.worker] = made = _Link(self, order.worker)
            self.begin(made.start(self._make, order))
        elif order.do == "leave":
            self.begin(self._end_all(order.seconds))
        elif order.do == "nodes":
            self.begin(self._say_nodes())
        elif link is not None and order.do == "kill":
            link.kill()

    async def _join_fleet(self, address: str) -> None:
        try:
            found = await asyncio.to_thread(self._join_now, address)
        except BaseException as error:  # noqa: BLE001 - Ray raises anything, SystemExit too
            self.say(failed=_word_error(error), is_passing=_is_passing(error))
            self._ended.set()
            return
        self.say(**found, python=sys.version.split()[0], ray=ray.__version__)
        self.begin(self._feel_pulse())

    def _join_now(self, address: str) -> dict[str, Any]:
        quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
        if address == "local":
            # Else all fleets of a machine share one file with an address. Short: sockets are in it.
            self._own_folder, self._is_ours = os.environ["RAY_TMPDIR"], True
            os.environ.pop("RAY_ADDRESS", None)
            ray.init(
                address="local",
                include_dashboard=False,
                _node_ip_address="127.0.0.1",
                _temp_dir=self._own_folder,
                **quiet,
            )
        else:
            check_answering(_find_place(address))
            ray.init(address=address, **quiet)
        self._make = ray.remote(FleetActor)
        return _look_around()

    async def _end_all(self, seconds: float) -> None:
        """End all workers, then this process."""
        links = [asyncio.ensure_future(link.stop()) for link in self._links.values()]
        if links:
            await asyncio.wait(links, timeout=seconds)
        self._ended.set()

    async def _say_nodes(self) -> None:
        with contextlib.suppress(Exception):
            self.say(**await asyncio.to_thread(_look_around))

    async def _feel_pulse(self) -> None:
        """End this process when the head does not answer: nothing can be started any more."""
        while True:
            await asyncio.sleep(_PULSE)
            look = asyncio.ensure_future(asyncio.to_thread(_look_around))
            done, _ = await asyncio.wait([look], timeout=_PATIENCE)
            if self._ended.is_set():
                return  # Ray is being shut down, and nothing may end this process meanwhile
            if not done or look.exception() is not None:
                self.say(failed="the head of the fleet does not answer any more")
                await asyncio.sleep(0.1)
                os._exit(1)
            self.say(**look.result())


class _Link:
    """One worker, as the driver has it.

    Args:
        driver: Says what becomes of it.
        number: The engine's number for it.
    """

    def __init__(self, driver: Driver, number: int) -> None:
        self._driver = driver
        self._number = number
        self._actor: Any = None
        self._exchange: Any = None
        self._items: list[bytes] = []
        """Bundles for the worker."""
        self._lock = threading.Lock()
        """Held for all that follows: Ray's threads bring the replies."""
        self._sending = threading.Lock()
        """Held while a bundle goes to Ray, so that none overtakes another; never by those threads:
        Ray may wait for them."""
        self._calls = self._asked = self._sent = 0
        self._next = 1
        self._early: dict[int, bytes] = {}
        self._is_over = False

    async def start(self, make: Any, order: Order) -> None:
        try:
            options = await asyncio.to_thread(_ship_code, order.options)
            if self._is_over:
                return
            # Owned: it dies with this process. Never run twice by Ray.
            never = {"max_restarts": 0, "max_task_retries": 0}
            made = make.options(**never, max_concurrency=THREADS, **options)
            self._actor = made.remote(bytes(order.settings))
            self._exchange = self._actor.exchange  # which Ray makes anew each time
            await self._actor.take_place.remote()
            self._driver.say(worker=self._number, is_placed=True)
            said = await self._actor.prepare.remote()
        except Exception as error:  # noqa: BLE001 - Ray raises anything
            self._report_loss(error)
            return
        if not self._is_over:
            self._driver.say(worker=self._number, ready=msgspec.Raw(said))

    def send(self, calls: int, bundle: bytes) -> None:
        """Send a bundle, which has requests for so many calls, each of which has one answer."""
        with self._lock:
            self._calls += calls
            self._items.append(bundle)
        self._bring_items()

    async def stop(self) -> None:
        self._is_over = True
        if self._actor is not None:
            with contextlib.suppress(Exception):
                await self._actor.stop.remote()

    def kill(self) -> None:
        self._is_over = True
        self._driver.forget(self._number)
        if self._actor is not None:
            ray.kill(self._actor)

    def _bring_items(self) -> None:
        """Bring what there is to the worker, and wait there for what comes."""
        with self._sending:
            with self._lock:
                if self._is_over or not self._wants_trip():
                    return
                self._sent += 1
                # Numbered, for the worker's threads may begin with them in another order.
                bundle = write_bundle(self._sent, 0, b"".join(self._items))
                self._items.clear()
                self._asked += 1
            try:
                reply = self._exchange.remote(bundle).future()
            except Exception as error:  # noqa: BLE001 - Ray raises anything
                self._driver.loop.call_soon_threadsafe(self._report_loss, error)
                return
        reply.add_done_callback(self._hear_reply)

    def _wants_trip(self) -> bool:
        """Return whether there is something to bring, or an answer for which no trip waits."""
        is_wanted = bool(self._items) or (self._calls > 0 and not self._asked)
        return is_wanted and self._asked < _AT_ONCE

    def _hear_reply(self, reply: Future[bytes]) -> None:
        """Pass a reply on, in a thread of Ray's: to wake the loop takes as long as the rest."""
        if (error := reply.exception()) is not None:
            self._driver.loop.call_soon_threadsafe(self._report_loss, error)
            return
        number, answers, said = read_bundle(reply.result())
        with self._lock:
            self._asked -= 1
            self._calls -= answers
            self._early[number] = said
            while (ready := self._early.pop(self._next, None)) is not None:
                self._next += 1
                self._driver.pass_on(self._number, ready)
            is_more = self._wants_trip()
        if is_more:
            self._driver.loop.call_soon_threadsafe(self._bring_items)

    def _report_loss(self, error: BaseException) -> None:
        if self._is_over:
            return
        self.kill()
        is_final = isinstance(error, (ShippingError, ray.exceptions.RuntimeEnvSetupError))
        self._driver.say(worker=self._number, lost=_word_error(error), is_final=is_final)


def _ship_code(options: dict[str, Any]) -> dict[str, Any]:
    """Bring the local folders and files of a runtime environment to the fleet.

    Ray itself does so only for what a whole job shares.

    Raises:
        ShippingError: They are not there, or too large, or hold a secret.
    """
    runtime = options.get("runtime_env")
    if not runtime:
        return options
    try:
        with tempfile.TemporaryDirectory() as scratch:
            for upload in (upload_py_modules_if_needed, upload_working_dir_if_needed):
                runtime = upload(runtime, include_gitignore=True, scratch_dir=scratch)
        # Ray reads the files of packages that it names.
        read = RuntimeEnv(**runtime)
        secrets = list_secrets({name: read.get(name) for name in _FROM_FILES})
    except (OSError, TypeError, ValueError) as error:
        raise ShippingError(str(error)) from error
    if secrets:
        raise ShippingError(f"entry.config.{secrets[0]}: {OPEN}")
    return {**options, "runtime_env": runtime}


def _is_passing(error: BaseException) -> bool:
    """Return whether a head answered, but had no process for a client, as on a busy machine."""
    # Its other subclasses are the system's.
    is_clients = type(error) in (ConnectionError, ConnectionAbortedError)
    return is_clients and _UNHEARD not in str(error)


def _find_place(address: str) -> str:
    """Return the `HOST:PORT` of an address, as Ray finds it; empty: Ray finds none."""
    place = os.environ.get("RAY_ADDRESS") or address if address == "auto" else address
    if place == "auto":
        place = services.canonicalize_bootstrap_address(place) or ""
    return place.removeprefix("ray://")


def _look_around() -> dict[str, Any]:
    """Return the nodes, and what of them is free."""
    nodes = [
        {
            "id": each["NodeID"],
            "host": each["NodeManagerHostname"],
            "address": each["NodeManagerAddress"],
            "resources": choose_resources(each.get("Resources", {})),
        }
        for each in ray.nodes()
        if each["Alive"]
    ]
    nodes.sort(key=lambda each: (each["address"], each["id"]))
    return {"nodes": nodes, "free": choose_resources(ray.available_resources())}


def _word_error(error: BaseException) -> str:
    """Return the words of Ray's error that say what has happened, without its trace."""
    lines = [line.strip() for line in str(error).strip().splitlines() if line.strip()]
    words, trace, _ = " ".join(lines).partition("Traceback (")
    if trace:
        words += lines[-1]
    return f"{type(error).__name__}: {words}"[:_MOST_WORDS]


def serve_engine() -> None:
    """Serve the engine whose connection is the file of the first argument."""
    connection = socket.socket(fileno=int(sys.argv[1]))
    worker_module: Any = ray._private.worker  # noqa: SLF001 - nothing public turns off its lines
    worker_module.listen_error_messages = lambda *_: None
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve_connection(connection))
    # Without Ray's own clean-up, which takes its time: the end of the process is enough.
    os._exit(0)


async def _serve_connection(connection: socket.socket) -> None:
    await Driver().serve(connection)
