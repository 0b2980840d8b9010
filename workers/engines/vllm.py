"""vLLM's sleep mode: `VLLM_SERVER_DEV_MODE=1 vllm serve ... --enable-sleep-mode`.

Its parameters go into the query string; a JSON body is ignored. Endpoints as in vLLM's sleep mode documentation.
"""

from __future__ import annotations

from typing import Any

from workers.engines.connection import Connection
from workers.service import Watch


class VllmControl:
    """Implements `workers.engines.control.Control`.

    Args:
        connection: to the server.
        level: 1 keeps the weights in the server's main memory; 2 drops them, and they are read from disk again.
    """

    needs = "a vLLM server with VLLM_SERVER_DEV_MODE=1 and --enable-sleep-mode"

    def __init__(self, connection: Connection, level: int = 1) -> None:
        self._connection = connection
        self._level = level

    def asleep(self, watch: Watch) -> bool | None:
        """Ask the server; it also says true while only some of its memory is back."""
        state: Any = self._connection.get("/is_sleeping", watch)
        return state.get("is_sleeping") if isinstance(state, dict) else None

    def release(self, watch: Watch) -> None:
        """Sleep. `mode=wait` lets requests of others end; servers that do not know it abort them."""
        self._connection.post("/sleep", watch, query={"level": self._level, "mode": "wait"}, again=False)

    def resume(self, watch: Watch) -> None:
        """Wake up; from level 2 in the documented order, so that weights never share the device with a stale cache."""
        post = self._connection.post
        if self._level == 1:
            post("/wake_up", watch, again=False)
            return
        post("/wake_up", watch, query={"tags": "weights"}, again=False)
        post("/collective_rpc", watch, body={"method": "reload_weights"}, again=False)
        post("/wake_up", watch, query={"tags": "kv_cache"}, again=False)
        post("/reset_prefix_cache", watch)
