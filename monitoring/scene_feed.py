"""Asks the leading scheduler for the scene, once a second for all viewers together, and not at all without one."""

from __future__ import annotations

import json
import threading
import time
from typing import Any

from kombu.exceptions import OperationalError
from redis.exceptions import RedisError

from tangram_tasks.app import TangramApp

#: Seconds for which an answer counts as fresh, and within which the scheduler must answer.
FRESH, PATIENCE = 0.9, 3.0


class SceneFeed:
    """Scenes as server-sent events. Thread safe.

    Args:
        app: the deployment.
    """

    def __init__(self, app: TangramApp) -> None:
        self._app = app
        self._lock = threading.Lock()
        self._asked = 0.0
        self._event = ("trouble", json.dumps("nothing is known yet"))

    def latest(self) -> tuple[str, str]:
        """Return the kind ("scene" or "trouble") and the content in JSON of what to show now."""
        with self._lock:
            if time.monotonic() - self._asked > FRESH:
                self._event = self._ask()
                self._asked = time.monotonic()
            return self._event

    def _ask(self) -> tuple[str, str]:
        control: Any = self._app.control
        try:
            leader: Any = self._app.redis.get(self._app.keys.leader)
            if leader is None:
                return "trouble", json.dumps("no scheduler leads")
            name = leader.decode().rpartition("-")[0]
            answers = control.broadcast("scene", destination=[name], reply=True, timeout=PATIENCE, limit=1)
        except (RedisError, OperationalError, OSError):
            return "trouble", json.dumps("the broker does not answer")
        scene = answers[0].get(name) if answers else None
        if not isinstance(scene, dict) or "error" in scene:
            return "trouble", json.dumps("the scheduler does not answer")
        return "scene", json.dumps(scene)
