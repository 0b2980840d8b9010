"""The scheduler as a Celery worker called `admission@HOST`: in Flower and `celery inspect` what waits is "reserved".

Everything that talks to the broker happens in a thread with a connection of its own. If that stands still, events are
dropped and counted, questions go unanswered, and scheduling goes on.
"""

from __future__ import annotations

import contextlib
import logging
import platform
import socket
import threading
import time
from collections import Counter
from importlib.metadata import version
from typing import Any

from kombu import Connection

from monitoring.action_rows import waiting_entries
from monitoring.admission_panel import AdmissionPanel
from monitoring.event_buffer import EventBuffer
from monitoring.event_sender import EventSender
from monitoring.inquiry import Inquiry
from monitoring.scene import Scene
from scheduler.books import Books
from scheduler.facts import Ended, Fact, Leads, Looked, Resigned, Waits
from tangram_tasks.app import TangramApp

logger = logging.getLogger(__name__)

#: Seconds between two looks at the buffer, between two heartbeats, and before the broker is tried again.
TICK, BEAT, RETRY = 0.25, 2.0, 1.0


class AdmissionWorker:
    """A watcher that is a pseudo-worker as long as the scheduler leads.

    Args:
        app: the deployment.
    """

    def __init__(self, app: TangramApp) -> None:
        self._app = app
        self._lead: _Lead | None = None

    def __call__(self, fact: Fact) -> None:
        """Hear a fact."""
        match fact:
            case Leads(books):
                self._lead = _Lead(self._app, books)
            case Resigned():
                if self._lead is not None:
                    self._lead.stop()
            case _:
                if self._lead is not None:
                    self._lead.hear(fact)

    def join(self, limit: float = 2.0) -> None:
        """Wait up to `limit` seconds until the pseudo-worker has said good-bye; call when the scheduler has ended."""
        if self._lead is not None:
            self._lead.join(limit)


class _Lead:
    """The pseudo-worker of one lead."""

    def __init__(self, app: TangramApp, books: Books) -> None:
        self.hostname = f"admission@{socket.gethostname()}"
        self._app = app
        self._buffer = EventBuffer()
        self._scene = Scene()
        self._totals: Counter[str] = Counter()
        self._load = (0, 0)  # waiting, running
        self._inquiry = Inquiry(books)
        self._panel = AdmissionPanel(
            app, self._inquiry, self._scene, self._switch, self._totals, lambda: self._buffer.dropped
        )
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="admission-worker", daemon=True)
        self._thread.start()

    def hear(self, fact: Fact) -> None:
        if isinstance(fact, Looked):
            entries = fact.books.entries
            self._load = len(entries.by_action) - len(entries.by_grant), len(entries.by_grant)
        elif isinstance(fact, Ended):
            self._totals[fact.entry.envelope.task] += 1
        self._scene.hear(fact)
        self._buffer.hear(fact)

    def stop(self) -> None:
        self._stop.set()

    def join(self, limit: float) -> None:
        self._thread.join(limit)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                with self._app.connection_for_write() as connection:
                    self._serve(connection)
            except Exception as error:  # noqa: BLE001  # whatever it is, the next try may work
                logger.warning("the pseudo-worker %s starts again: %s", self.hostname, error)
                self._stop.wait(RETRY)

    def _serve(self, connection: Connection) -> None:
        control: Any = self._app.control
        node = control.mailbox(connection).Node(
            self.hostname, handlers=self._panel.handlers(connection), channel=connection.default_channel
        )
        node.listen()
        events: Any = self._app.events
        with EventSender(events.Dispatcher(connection, hostname=self.hostname, buffer_group={"task"})) as sender:
            sender.tell_worker("online", **self._beat())
            next_tick = next_beat = time.monotonic()
            while not self._stop.is_set():
                with contextlib.suppress(TimeoutError):
                    connection.drain_events(timeout=TICK)
                now = time.monotonic()
                if now >= next_tick:
                    sender.send(self._buffer.take())
                    next_tick = now + TICK
                if now >= next_beat:
                    sender.tell_worker("heartbeat", **self._beat())
                    next_beat = now + BEAT
            sender.tell_worker("offline", **self._beat())

    def _beat(self) -> dict[str, Any]:
        waiting, running = self._load
        return {
            "freq": BEAT,
            "active": 0,  # they run on nodes, which count them
            "processed": self._totals.total(),
            "loadavg": [waiting, running, 0],
            "sw_ident": "tangram",
            "sw_ver": version("tangram-rl"),
            "sw_sys": platform.system(),
        }

    def _switch(self, on: bool) -> None:
        """Turn task events on or off; who waits already is announced, too."""
        if on and not self._buffer.enabled:
            self._buffer.enabled = True
            self._inquiry.ask(self._announce)
        self._buffer.enabled = on

    def _announce(self, books: Books) -> None:
        for entry in waiting_entries(books):
            self._buffer.hear(Waits(entry))
