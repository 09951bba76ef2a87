"""A part of a page, used as a person does: with a mouse and keys."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.browser.chromium import BOUND

if TYPE_CHECKING:
    from tests.browser.page import Page

_WHAT_LIES_OVER = """function(x, y) {
  if (!this.isConnected) throw new Error("Node is detached");
  const hit = document.elementFromPoint(x, y);
  if (hit === null) return "the edge of the window";
  if (this.contains(hit) || hit.closest("label")?.control === this) return null;
  return hit.outerHTML.slice(0, 100);
}"""
_REFUSAL = """function(writes) {
  if (this.matches(":disabled")) return "disabled";
  return writes && this.readOnly ? "read-only" : null;
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
_UNSEEN = "cannot be seen"
_GONE = (
    "No node",
    "Could not find node",
    "Node is detached",
    "does not have a layout object",
    _UNSEEN,
)
"""What the browser and we say of an element that the page has just replaced."""


class Element:
    """A part of a page."""

    def __init__(self, page: Page, node: int, name: str) -> None:
        self._page = page
        self._node = node
        self.name = name
        self.query: tuple[str, str | None] | None = None
        """What finds it, and only it, again."""

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

    async def click(self, times: int = 1) -> None:
        """Clicks in its middle, where it can be seen; two times are a double click.

        Raises:
            AssertionError: Something lies over it, or it is disabled.
        """
        x, y = await self._retry(self._find_middle)
        mouse = partial(self._page.send, "Input.dispatchMouseEvent", x=x, y=y)
        await mouse(type="mouseMoved", button="none", clickCount=0)
        for number in range(1, times + 1):
            for kind in ("mousePressed", "mouseReleased"):
                await mouse(type=kind, button="left", clickCount=number)

    async def click_and_load(self) -> None:
        """Clicks what leads to another page, and waits for that."""
        self._page._loaded.clear()
        await self.click()
        await self._page.wait_for_load()

    async def focus(self) -> None:
        """Puts the keyboard's place on it."""
        await self._retry(lambda: self._page.send("DOM.focus", backendNodeId=self._node))

    async def fill(self, text: str) -> None:
        """Types a text in the place of what is there.

        Raises:
            AssertionError: It is disabled or read-only.
        """
        refusal = await self._retry(lambda: self.call(_REFUSAL, True))
        assert refusal is None, f"{self.name!r} is {refusal}"
        await self.focus()
        await self.call("function() { this.select(); }")
        if text:
            await self._page.send("Input.insertText", text=text)
        else:
            await self._page.press("Delete")

    async def press(self, keys: str) -> None:
        """Presses keys while it has the focus, as `Page.press` does."""
        await self.focus()
        await self._page.press(keys)

    async def choose(self, value: str) -> None:
        """Chooses an option by its words, or a date."""
        await self._retry(lambda: self.call(_CHOOSE, value))

    async def choose_files(self, *paths: Path) -> None:
        """Chooses files in a control that takes some."""
        files = [str(path.absolute()) for path in paths]
        await self._retry(
            lambda: self._page.send("DOM.setFileInputFiles", files=files, backendNodeId=self._node)
        )

    async def text(self) -> str:
        return str(
            await self._retry(
                lambda: self.call("function() { return this.innerText ?? this.value; }")
            )
        )

    async def value(self) -> str:
        return str(await self._retry(lambda: self.call("function() { return this.value; }")))

    async def attribute(self, name: str) -> str | None:
        """The text of an attribute; None: it has none."""
        found = await self._retry(
            lambda: self.call("function(name) { return this.getAttribute(name); }", name)
        )
        return None if found is None else str(found)

    async def _find_middle(self) -> tuple[float, float]:
        await self._page.send("DOM.scrollIntoViewIfNeeded", backendNodeId=self._node)
        quads = await self._page.send("DOM.getContentQuads", backendNodeId=self._node)
        assert quads["quads"], f"{self.name!r} {_UNSEEN}"
        corners = quads["quads"][0]
        x, y = sum(corners[0::2]) / 4, sum(corners[1::2]) / 4
        refusal = await self.call(_REFUSAL, False)
        assert refusal is None, f"{self.name!r} is {refusal}"
        over = await self.call(_WHAT_LIES_OVER, x, y)
        assert over is None, f"something lies over {self.name!r}: {over}"
        return x, y

    async def _retry(self, act: Callable[[], Awaitable[Any]]) -> Any:
        """Does it with the element that has come in place of this one, where that has gone."""
        end = time.monotonic() + BOUND
        while True:
            try:
                if self.query is None or await self.call("function() { return this.isConnected; }"):
                    return await act()
            except AssertionError as error:
                is_gone = any(words in str(error) for words in _GONE)
                if self.query is None or not is_gone or time.monotonic() > end:
                    raise
            assert self.query is not None
            self._node = (await self._page.find(*self.query))._node
