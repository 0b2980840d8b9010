"""A headless Chromium that looks at one page, over its debugging protocol."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from tornado.websocket import WebSocketClientConnection, websocket_connect

from tests.conftest import unavailable
from tests.support.seeing import fetch
from tests.waiting import wait_until

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_QUIET = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars")


@dataclass(frozen=True, slots=True)
class Look:
    """A page as a person saw it: its elements as HTML, and a picture (PNG)."""

    html: str
    picture: bytes


def look(url: str, *, until: str, width: int = 1300, height: int = 800, limit: float = 30.0) -> Look:
    """Open a page and return it as soon as it shows a text. Raises AssertionError if it does not in `limit` seconds."""
    with _chromium(width, height) as devtools:
        tab = json.loads(fetch(f"{devtools}/json/new?about:blank", method="PUT"))
        return asyncio.run(_look(tab["webSocketDebuggerUrl"], url, until, limit))


async def _look(debugger: str, url: str, until: str, limit: float) -> Look:
    socket = await websocket_connect(debugger, max_message_size=64 << 20)
    numbers = count(1)

    async def call(method: str, **options: Any) -> dict[str, Any]:
        return await _call(socket, next(numbers), method, options)

    async def html() -> str:
        answer = await call("Runtime.evaluate", expression="document.documentElement.outerHTML")
        return str(answer["result"].get("value", ""))  # none yet while the page changes

    try:
        await call("Page.navigate", url=url)
        async with asyncio.timeout(limit):
            while until not in await html():
                await asyncio.sleep(0.2)
        await asyncio.sleep(0.5)  # what was just drawn is to be on the picture
        picture = await call("Page.captureScreenshot", format="png")
        return Look(await html(), base64.b64decode(picture["data"]))
    except TimeoutError:
        raise AssertionError(f"the page does not show {until!r}: {(await html())[:2000]}") from None
    finally:
        socket.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(5):  # the loop must not end before the connection has
                while await socket.read_message() is not None:
                    pass


async def _call(socket: WebSocketClientConnection, number: int, method: str, options: dict[str, Any]) -> dict[str, Any]:
    await socket.write_message(json.dumps({"id": number, "method": method, "params": options}))
    while True:
        message = await socket.read_message()
        assert message is not None, "the browser has gone"
        answer: dict[str, Any] = json.loads(message)
        if answer.get("id") == number:
            assert "error" not in answer, answer
            result: dict[str, Any] = answer["result"]
            return result


@contextlib.contextmanager
def _chromium(width: int, height: int) -> Iterator[str]:
    """Run the browser; yields the address of its debugging protocol."""
    binary = next((path for name in _NAMES if (path := shutil.which(name))), None)
    if binary is None:
        unavailable("no Chromium on PATH")
    with tempfile.TemporaryDirectory(prefix="browser-", ignore_cleanup_errors=True) as profile:
        port = Path(profile) / "DevToolsActivePort"
        options = ["--remote-debugging-port=0", f"--user-data-dir={profile}", f"--window-size={width},{height}"]
        command, nowhere = [binary, *_QUIET, *options], subprocess.DEVNULL
        with subprocess.Popen(command, stdout=nowhere, stderr=nowhere) as process:
            try:
                wait_until(lambda: port.exists() and bool(port.read_text().strip()), "the browser is up", 40)
                yield f"http://127.0.0.1:{port.read_text().split()[0]}"
            finally:
                process.terminate()
                try:
                    process.wait(10)
                except subprocess.TimeoutExpired:
                    process.kill()
