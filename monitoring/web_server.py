"""The live page: a few files and one stream of server-sent events, read-only, on this machine only."""

from __future__ import annotations

import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from typing import Any, Protocol

#: Only this machine: the page has no password. From elsewhere: `ssh -L`.
HOST = "127.0.0.1"
#: Open streams at a time; each takes a thread.
VIEWERS = 16
#: Seconds between two scenes.
PAUSE = 1.0

_FILES = {
    "/": ("index.html", "text/html"),
    "/page.js": ("page.js", "text/javascript"),
    "/page.css": ("page.css", "text/css"),
}
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline';"
    " connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}


class Feed(Protocol):
    """Where scenes come from."""

    def latest(self) -> tuple[str, str]:
        """Return the kind and the content in JSON of what to show now."""


class WebServer(ThreadingHTTPServer):
    """Serves until `shutdown`.

    Args:
        port: on 127.0.0.1; 0 takes a free one.
        feed: what the page shows.

    Raises:
        OSError: the port cannot be had.
    """

    daemon_threads = True

    def __init__(self, port: int, feed: Feed) -> None:
        super().__init__((HOST, port), _Handler)
        self.feed = feed
        self.viewers = threading.BoundedSemaphore(VIEWERS)
        self.over = threading.Event()

    @property
    def url(self) -> str:
        """Where the page is."""
        return f"http://{HOST}:{self.server_port}"

    def shutdown(self) -> None:
        """End the streams and stop serving."""
        self.over.set()
        super().shutdown()


class _Handler(BaseHTTPRequestHandler):
    server: WebServer
    server_version, sys_version = "tangram", ""
    timeout = 30

    def do_GET(self) -> None:
        """Answer one request."""
        host = self.headers.get("Host", "").rpartition(":")[0]
        if host not in (HOST, "localhost"):  # a page elsewhere whose name was pointed here
            self.send_error(HTTPStatus.FORBIDDEN, "this page is for this machine only")
        elif self.path == "/events":
            self._stream()
        elif self.path in _FILES:
            name, kind = _FILES[self.path]
            content = files("monitoring").joinpath("web", name).read_bytes()
            self._begin(kind)
            self.wfile.write(content)
        else:
            self.send_error(HTTPStatus.NOT_FOUND)

    def _stream(self) -> None:
        server = self.server
        if not server.viewers.acquire(blocking=False):
            self.send_error(HTTPStatus.SERVICE_UNAVAILABLE, "too many pages are open")
            return
        try:
            self._begin("text/event-stream")
            while not server.over.is_set():
                kind, content = server.feed.latest()
                self.wfile.write(f"event: {kind}\ndata: {content}\n\n".encode())
                server.over.wait(PAUSE)
        except OSError:
            pass  # the viewer has gone
        finally:
            server.viewers.release()

    def _begin(self, kind: str) -> None:
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:  # the base class names it
        """Keep silent: every look would be a line."""
