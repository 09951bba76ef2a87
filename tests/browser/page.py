"""A page of a browser: found and used as people do, by role and name."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.browser.chromium import BOUND, DevTools
from tests.browser.element import Element

AXE = Path(__file__).parent / "node/node_modules/axe-core/axe.min.js"
_COLOURS = "{resultTypes: ['violations'], runOnly: ['color-contrast', 'link-in-text-block']}"
_KEYS = {
    "Backspace": 8,
    "Tab": 9,
    "Enter": 13,
    "Escape": 27,
    " ": 32,
    "PageUp": 33,
    "PageDown": 34,
    "End": 35,
    "Home": 36,
    "ArrowLeft": 37,
    "ArrowUp": 38,
    "ArrowRight": 39,
    "ArrowDown": 40,
    "Delete": 46,
}
_MODIFIERS = {"Alt": 1, "Control": 2, "Meta": 4, "Shift": 8}


class Page:
    """One tab."""

    def __init__(self, tools: DevTools, session: str, context: str) -> None:
        self._tools = tools
        self._session = session
        self._context = context
        self._preferred: dict[str, str] = {}
        self._loaded = asyncio.Event()
        self.requests: list[str] = []
        """Of the page, its frames and its sockets."""
        self.errors: list[str] = []
        """What the console says is wrong, and exceptions of scripts."""
        self.violations: list[str] = []
        """What the policy of the page has refused."""
        tools.listen(session, self._on_event)

    @classmethod
    @contextlib.asynccontextmanager
    async def opened(cls, tools: DevTools, context: str) -> AsyncIterator[Page]:
        target = await tools.send(
            "Target.createTarget", url="about:blank", browserContextId=context
        )
        attached = await tools.send(
            "Target.attachToTarget", targetId=target["targetId"], flatten=True
        )
        page = cls(tools, attached["sessionId"], context)
        try:
            for domain in ("Page", "Runtime", "Network", "Log", "Audits", "DOM", "Accessibility"):
                await page.send(f"{domain}.enable")
            yield page
        finally:
            await tools.send("Target.closeTarget", targetId=target["targetId"])

    async def send(self, method: str, **params: Any) -> Any:
        return await self._tools.send(method, self._session, **params)

    async def open(self, url: str) -> None:
        """Goes to a place, and waits until it is loaded.

        Raises:
            AssertionError: The place cannot be reached.
        """
        self._loaded.clear()
        found = await self.send("Page.navigate", url=url)
        assert "errorText" not in found, f"{url}: {found['errorText']}"
        if "loaderId" in found:  # else only the fragment is another
            await self.wait_for_load()

    async def wait_for_load(self) -> None:
        async with asyncio.timeout(BOUND):
            await self._loaded.wait()

    async def evaluate(self, script: str) -> Any:
        """The value of a script, once its promise has one."""
        found = await self.send(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    async def find_all(self, role: str, name: str | None = None) -> list[Element]:
        """What has a role now, and a name if one is given, as assistive technology sees it."""
        # Not `queryAXTree`: a page that is replaced before it answers brings the browser's part of
        # it down, and nothing that was asked is answered any more.
        found = await self.send("Accessibility.getFullAXTree")
        elements = [
            # Space around the words of a label is in its name, and is not heard.
            Element(self, each["backendDOMNodeId"], each.get("name", {}).get("value", "").strip())
            for each in found["nodes"]
            if not each["ignored"] and "backendDOMNodeId" in each and each["role"]["value"] == role
        ]
        return [each for each in elements if name is None or each.name == name]

    async def find(self, role: str, name: str | None = None) -> Element:
        """The one that has a role and a name, as soon as it is there.

        Where the page puts another in its place, it is found again.
        """

        async def look() -> list[Element]:
            return await self.find_all(role, name)

        found: list[Element] = await self.wait_until(look)
        assert len(found) == 1, f"{len(found)} of {role} {name!r}: {[each.name for each in found]}"
        found[0].query = (role, name)
        return found[0]

    async def wait_until(self, look: Callable[[], Awaitable[Any]]) -> Any:
        """What a look finds, as soon as that is something.

        Raises:
            AssertionError: It does not come, or the browser has ended.
        """
        end = time.monotonic() + BOUND
        while True:
            failure = None
            try:
                if found := await look():
                    return found
            # A page that is being replaced has no document for a moment.
            except AssertionError as error:
                failure = error
            if time.monotonic() > end or self._tools.is_closed:
                text = "" if failure else f": {await self.text()}"
                raise AssertionError(f"it did not come{text}") from failure
            await asyncio.sleep(0.02)

    async def wait_for_text(self, text: str) -> None:
        async def look() -> bool:
            return text in await self.text()

        await self.wait_until(look)

    async def text(self) -> str:
        """What can be read on the page."""
        return str(await self.evaluate("document.body.innerText"))

    async def press(self, keys: str) -> None:
        """Presses a key as `KeyboardEvent.key` names it, or several: `Shift+Tab`."""
        *held, key = keys.split("+") if len(keys) > 1 else [keys]
        code = _KEYS.get(key, ord(key.upper()[0]))
        modifiers = sum(_MODIFIERS[each] for each in held)
        text = {"Enter": "\r"}.get(key, key if len(key) == 1 else "")
        is_command = bool(modifiers & ~_MODIFIERS["Shift"])
        for kind in ("keyDown", "keyUp"):
            await self.send(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                modifiers=modifiers,
                windowsVirtualKeyCode=code,
                **({"text": text} if text and kind == "keyDown" and not is_command else {}),
            )

    async def set_size(self, width: int, height: int) -> None:
        await self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    async def prefer(self, scheme: str) -> None:
        """Prefers `light` or `dark`."""
        await self._prefer("prefers-color-scheme", scheme)

    async def prefer_motion(self, *, is_reduced: bool) -> None:
        await self._prefer("prefers-reduced-motion", "reduce" if is_reduced else "no-preference")

    async def _prefer(self, feature: str, value: str) -> None:
        self._preferred[feature] = value
        features = [{"name": name, "value": value} for name, value in self._preferred.items()]
        await self.send("Emulation.setEmulatedMedia", features=features)

    async def set_scripts(self, *, are_run: bool) -> None:
        await self.send("Emulation.setScriptExecutionDisabled", value=not are_run)

    async def take_screenshot(self, path: Path, *, is_whole: bool = False) -> None:
        found = await self.send("Page.captureScreenshot", captureBeyondViewport=is_whole)
        await asyncio.to_thread(path.write_bytes, base64.b64decode(found["data"]))

    async def download(self, begin: Callable[[], Awaitable[Any]], folder: Path) -> Path:
        """The file that comes when something is begun, such as a click; below its own name.

        Raises:
            AssertionError: None comes, or not all of it.
        """
        names: dict[str, str] = {}
        ended: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def on_event(method: str, params: Any) -> None:
            if method == "Browser.downloadWillBegin":
                names[params["guid"]] = params["suggestedFilename"]
            is_end = method == "Browser.downloadProgress" and params["state"] != "inProgress"
            if is_end and params["guid"] in names and not ended.done():
                ended.set_result(params)

        forget = self._tools.listen("", on_event)
        try:
            await self._tools.send(
                "Browser.setDownloadBehavior",
                behavior="allowAndName",
                downloadPath=str(folder),
                browserContextId=self._context,
                eventsEnabled=True,
            )
            await begin()
            try:
                async with asyncio.timeout(BOUND):
                    found = await ended
            except TimeoutError:
                raise AssertionError(f"no file came: {await self.text()}") from None
        finally:
            forget()
        name = names[found["guid"]]
        assert found["state"] == "completed", f"{name} was not received: {found['state']}"
        return await asyncio.to_thread((folder / found["guid"]).rename, folder / Path(name).name)

    async def find_barriers(self) -> list[str]:
        """What axe-core finds that is serious or critical: the rule, and the first places."""
        return await self._run_axe("{resultTypes: ['violations']}")

    async def find_barriers_of_colours(self) -> list[str]:
        """What it finds in the dark on a page in which light colours were looked through.

        Nothing but colours is another there.
        """
        await self.prefer("dark")
        found = await self._run_axe(_COLOURS)
        await self.prefer("light")
        return found

    async def _run_axe(self, options: str) -> list[str]:
        if not await self.evaluate("typeof axe === 'object'"):
            await self.evaluate(AXE.read_text("utf-8") + "; true")
        found = await self.evaluate(
            f"axe.run(document, {options}).then((r) => r.violations.map("
            "(v) => [v.impact, v.id, v.nodes.slice(0, 3).map((n) => n.html.slice(0, 200))]))"
        )
        return [json.dumps(each) for each in found if each[0] in ("serious", "critical")]

    def list_foreign(self, url: str) -> list[str]:
        """The requests that went to another host."""
        own = urlsplit(url).netloc
        return [
            each
            for each in self.requests
            if urlsplit(each).scheme not in ("data", "about", "blob")
            and urlsplit(each).netloc != own
        ]

    def _on_event(self, method: str, params: Any) -> None:
        if method == "Page.loadEventFired":
            self._loaded.set()
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif method in ("Network.webSocketCreated", "Network.webTransportCreated"):
            self.requests.append(params["url"])
        elif method == "Runtime.exceptionThrown":
            self.errors.append(json.dumps(params["exceptionDetails"])[:500])
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "assert"):
            said = [str(each.get("value", each.get("description"))) for each in params["args"]]
            self.errors.append(" ".join(said)[:500])
        elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.errors.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")
        elif method == "Audits.issueAdded":
            issue = params["issue"]
            if issue["code"] == "ContentSecurityPolicyIssue":
                self.violations.append(json.dumps(issue["details"])[:500])
