"""What the pseudo-worker answers to Celery's remote control: `celery inspect`, `celery control`, Flower."""

from __future__ import annotations

import os
import resource
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from kombu import Connection, Queue

from monitoring.action_rows import active_rows, found_rows, reserved_rows, scheduled_rows
from monitoring.inquiry import Inquiry
from monitoring.scene import Scene
from scheduler.books import Books
from scheduler.core.domain import in_words
from tangram_tasks.app import TangramApp
from tangram_tasks.control_messages import CancelAction, PauseAdmission
from tangram_tasks.keys import ADMISSION_QUEUE
from tangram_tasks.settings import without_password

Answer = dict[str, str]

_NO_POOL = "admission has no pool of its own: start a node with `tangram worker`, or take one out with `tangram drain`"
_NOT_HERE = "admission cannot do that"


class AdmissionPanel:
    """Commands by name, for one leader.

    Args:
        app: the deployment; what changes something goes through its control stream.
        inquiry: the leader's books.
        scene: what the live page shows.
        switch: turns task events on or off.
        totals: actions that ended, by task.
        dropped: events that were dropped so far.
    """

    def __init__(
        self,
        app: TangramApp,
        inquiry: Inquiry,
        scene: Scene,
        switch: Callable[[bool], None],
        totals: Mapping[str, int],
        dropped: Callable[[], int],
    ) -> None:
        self._app = app
        self._inquiry = inquiry
        self._scene = scene
        self._switch = switch
        self._totals = totals
        self._dropped = dropped
        self._began = time.monotonic()

    def handlers(self, connection: Connection) -> dict[str, Callable[..., Any]]:
        """Return the commands as kombu's mailbox wants them: the first argument of each is ignored."""
        ask = self._inquiry.ask
        return {
            "ping": lambda _, **options: _ok("pong"),
            "hello": lambda _, **options: {"clock": self._clock(), "revoked": {}},
            "clock": lambda _, **options: {"clock": self._clock()},
            "stats": lambda _, **options: self._stats(connection),
            "conf": lambda _, **options: self._conf(),
            "registered": lambda _, **options: sorted(self._totals),
            "active_queues": lambda _, **options: [Queue(ADMISSION_QUEUE).as_dict(recurse=True)],
            "scene": lambda _, **options: ask(self._scene.view),
            "reserved": lambda _, **options: ask(reserved_rows),
            "scheduled": lambda _, **options: ask(scheduled_rows),
            "active": lambda _, **options: ask(active_rows),
            "revoked": lambda _, **options: ask(lambda books: sorted(books.cancelled)),
            "query_task": lambda _, ids, **options: ask(lambda books: found_rows(books, _listed(ids))),
            "revoke": self._revoke,
            "add_consumer": lambda _, queue, **options: self._pause(queue, paused=False),
            "cancel_consumer": lambda _, queue, **options: self._pause(queue, paused=True),
            "enable_events": lambda _, **options: self._events(on=True),
            "disable_events": lambda _, **options: self._events(on=False),
            "heartbeat": lambda _, **options: _ok("one comes every other second"),
            **dict.fromkeys(("pool_grow", "pool_shrink", "pool_restart", "autoscale"), _refusal(_NO_POOL)),
            "shutdown": _refusal("the scheduler is not stopped from here: stop its process"),
            **dict.fromkeys(("rate_limit", "time_limit", "report", "memsample", "memdump"), _refusal(_NOT_HERE)),
        }

    def _revoke(self, _: Any, task_id: str | list[str], **options: Any) -> Answer:
        ids = _listed(task_id)
        self._app.send_control(*(CancelAction(action=action) for action in ids))
        return _ok(f"cancelled: {', '.join(ids)}")

    def _pause(self, queue: str, *, paused: bool) -> Answer:
        if queue != ADMISSION_QUEUE:
            return {"error": f"the scheduler reads {ADMISSION_QUEUE} and nothing else"}
        self._app.send_control(PauseAdmission(paused=paused))
        return _ok(f"{'no longer' if paused else 'again'} taking actions from {queue}")

    def _events(self, *, on: bool) -> Answer:
        self._switch(on)
        return _ok(f"task events {'enabled' if on else 'disabled'}")

    def _clock(self) -> int:
        app: Any = self._app
        return int(app.clock.value)

    def _conf(self) -> dict[str, Any]:
        shown = self._app.settings.model_dump(mode="json")
        return {**shown, "broker_url": without_password(self._app.url)}

    def _stats(self, connection: Connection) -> dict[str, Any]:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        broker = dict(connection.info())
        broker.pop("alternates", None)
        books = self._inquiry.ask(_figures)
        return {
            "total": dict(Counter(self._totals)),
            "pid": os.getpid(),
            "clock": str(self._clock()),
            "uptime": int(time.monotonic() - self._began),
            "prefetch_count": 0,
            "broker": {name: value for name, value in broker.items() if name != "password"},
            "pool": {"implementation": "tangram admission", "policy": self._app.settings.policy},
            "rusage": {"utime": usage.ru_utime, "stime": usage.ru_stime, "maxrss": usage.ru_maxrss},
            "events_dropped": self._dropped(),
            **books,
        }


def _figures(books: Books) -> dict[str, Any]:
    running = len(books.entries.by_grant)
    places = {
        row.domain: f"granted {in_words(row.granted)} of {in_words(row.capacity)};"
        f" {row.running} running, {row.waiting} waiting"
        for row in books.core.holdings()
    }
    return {
        "waiting": len(books.entries.by_action) - running,
        "running": running,
        "trajectories": len(books.trajectories),
        "paused": books.paused,
        "epoch": books.ledger.epoch,
        "places": places,
    }


def _ok(text: str) -> Answer:
    return {"ok": text}


def _refusal(why: str) -> Callable[..., Answer]:
    return lambda _, **options: {"error": why}


def _listed(ids: str | list[str]) -> list[str]:
    return [ids] if isinstance(ids, str) else list(ids)
