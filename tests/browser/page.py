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

AXE = Path(__file__).parent / "node/node_modules/axe-core/axe.min.js"
_KEYS = {"Enter": 13, "Tab": 9, "Escape": 27, " ": 32, "ArrowDown": 40}
_IS_HIT = """function(x, y) {
  const hit = document.elementFromPoint(x, y);
  if (hit === null) return false;
  return this.contains(hit) || hit.closest("label")?.control === this;
}"""
_CHOOSE = """function(value) {
  if (this instanceof HTMLSelectElement) {
    const is = (each) => each.text.trim() === value || each.value === value;
    const found = [...this.options].find(is);
    if (!found) throw new Error("no such option: " + value);
    this.value = found.value;
  } else this.value = value;
  this.dispatchEvent(new Event("input", {bubbles: true}));
  this.dispatchEvent(new Event("change", {bubbles: true}));
}"""


class Page:
    """One tab."""

    def __init__(self, tools: DevTools, session: str) -> None:
        self._tools = tools
        self._session = session
        self._loaded = asyncio.Event()
        self.requests: list[str] = []
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
        page = cls(tools, attached["sessionId"])
        for domain in ("Page", "Runtime", "Network", "Log", "Audits", "DOM", "Accessibility"):
            await page.send(f"{domain}.enable")
        try:
            yield page
        finally:
            await tools.send("Target.closeTarget", targetId=target["targetId"])

    async def send(self, method: str, **params: Any) -> Any:
        return await self._tools.send(method, self._session, **params)

    async def open(self, url: str) -> None:
        """Goes to a place, and waits until it is loaded."""
        self._loaded.clear()
        await self.send("Page.navigate", url=url)
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
        """What has a role, and a name if one is given, as assistive technology sees it."""
        document = await self.send("DOM.getDocument", depth=0)
        wanted = {"role": role} if name is None else {"role": role, "accessibleName": name}
        found = await self.send(
            "Accessibility.queryAXTree", backendNodeId=document["root"]["backendNodeId"], **wanted
        )
        return [
            Element(self, each["backendDOMNodeId"], each.get("name", {}).get("value", ""))
            for each in found["nodes"]
            if not each["ignored"] and "backendDOMNodeId" in each
        ]

    async def find(self, role: str, name: str | None = None) -> Element:
        """The one that has a role and a name, as soon as it is there."""

        async def look() -> list[Element]:
            return await self.find_all(role, name)

        found: list[Element] = await self.wait_until(look)
        assert len(found) == 1, f"{len(found)} of {role} {name!r}: {[each.name for each in found]}"
        return found[0]

    async def wait_until(self, look: Callable[[], Awaitable[Any]]) -> Any:
        """What a look finds, as soon as that is something."""
        end = time.monotonic() + BOUND
        while True:
            # A page that is being replaced has no document for a moment.
            with contextlib.suppress(AssertionError):
                found = await look()
                if found:
                    return found
            assert time.monotonic() < end, f"it did not come: {await self.text()}"
            await asyncio.sleep(0.02)

    async def wait_for_text(self, text: str) -> None:
        async def look() -> bool:
            return text in await self.text()

        await self.wait_until(look)

    async def text(self) -> str:
        """What can be read on the page."""
        return str(await self.evaluate("document.body.innerText"))

    async def press(self, key: str) -> None:
        code = _KEYS.get(key, ord(key.upper()[0]))
        text = {"Enter": "\r"}.get(key, key if len(key) == 1 else "")
        for kind in ("keyDown", "keyUp"):
            await self.send(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                windowsVirtualKeyCode=code,
                **({"text": text} if text and kind == "keyDown" else {}),
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
        feature = {"name": "prefers-color-scheme", "value": scheme}
        await self.send("Emulation.setEmulatedMedia", features=[feature])

    async def set_scripts(self, *, are_run: bool) -> None:
        await self.send("Emulation.setScriptExecutionDisabled", value=not are_run)

    async def set_network(self, *, is_there: bool) -> None:
        await self.send(
            "Network.emulateNetworkConditions",
            offline=not is_there,
            latency=0,
            downloadThroughput=-1,
            uploadThroughput=-1,
        )

    async def take_screenshot(self, path: Path, *, is_whole: bool = False) -> None:
        found = await self.send("Page.captureScreenshot", captureBeyondViewport=is_whole)
        await asyncio.to_thread(path.write_bytes, base64.b64decode(found["data"]))

    async def find_barriers(self) -> list[str]:
        """What axe-core finds that is serious or critical: the rule, and the first places."""
        await self.evaluate(AXE.read_text("utf-8") + "; true")
        found = await self.evaluate(
            "axe.run(document, {resultTypes: ['violations']}).then((r) => r.violations.map("
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
        elif method == "Runtime.exceptionThrown":
            self.errors.append(json.dumps(params["exceptionDetails"])[:500])
        elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.errors.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")
        elif method == "Audits.issueAdded":
            issue = params["issue"]
            if issue["code"] == "ContentSecurityPolicyIssue":
                self.violations.append(json.dumps(issue["details"])[:500])


class Element:
    """A part of a page."""

    def __init__(self, page: Page, node: int, name: str) -> None:
        self._page = page
        self._node = node
        self.name = name

    async def call(self, function: str, *arguments: Any) -> Any:
        """What a function of a script returns, with the element as its `this`."""
        found = await self._page.send("DOM.resolveNode", backendNodeId=self._node)
        result = await self._page.send(
            "Runtime.callFunctionOn",
            objectId=found["object"]["objectId"],
            functionDeclaration=function,
            arguments=[{"value": each} for each in arguments],
            returnByValue=True,
        )
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    async def click(self) -> None:
        """Clicks in its middle, where it can be seen.

        Raises:
            AssertionError: Something lies over it.
        """
        await self._page.send("DOM.scrollIntoViewIfNeeded", backendNodeId=self._node)
        quads = await self._page.send("DOM.getContentQuads", backendNodeId=self._node)
        corners = quads["quads"][0]
        x, y = sum(corners[0::2]) / 4, sum(corners[1::2]) / 4
        assert await self.call(_IS_HIT, x, y), f"something lies over {self.name!r}"
        for kind in ("mousePressed", "mouseReleased"):
            await self._page.send(
                "Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1
            )

    async def click_and_load(self) -> None:
        """Clicks what leads to another page, and waits for that."""
        self._page._loaded.clear()
        await self.click()
        await self._page.wait_for_load()

    async def fill(self, text: str) -> None:
        """Types a text in the place of what is there."""
        await self._page.send("DOM.focus", backendNodeId=self._node)
        await self.call("function() { this.select(); }")
        await self._page.send("Input.insertText", text=text)

    async def choose(self, value: str) -> None:
        """Chooses an option by its words, or a date."""
        await self.call(_CHOOSE, value)

    async def text(self) -> str:
        return str(await self.call("function() { return this.innerText ?? this.value; }"))

    async def value(self) -> str:
        return str(await self.call("function() { return this.value; }"))
