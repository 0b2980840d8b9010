"""Calls with a key: their outcome is recorded, and given again instead of running twice."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any
from uuid import UUID, uuid5

from tangram_tasks.errors import InvalidAction

#: Key of the call's digest in a result.
CALL = "tangram_call"

_NAMES = UUID("6ba7b812-9dad-11d1-80b4-00c04fd430c8")
_ERRORS = "tangram_tasks.errors"


class Journal:
    """Numbers the calls of one trajectory in the order in which they are made.

    Args:
        name: the same one again for the same trajectory after a restart.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._steps = itertools.count()

    def key(self, given: str | None) -> str:
        """Return the key of the next call, or of one that was given its own."""
        return f"{self.name}/{given if given is not None else next(self._steps)}"


#: The journal of the trajectory that is current here, if it keeps one.
current_journal: ContextVar[Journal | None] = ContextVar("tangram_journal", default=None)


def stable_id(job: str, kind: str, key: str) -> str:
    """Return the id of what has this key in this RL job: the same one in every process."""
    return str(uuid5(_NAMES, "\0".join((job, kind, key))))


def digest(name: str, args: Any, kwargs: Any) -> str:
    """Return what tells this call from others."""
    call = json.dumps([name, list(args or ()), dict(kwargs or {})], sort_keys=True, default=str)
    return hashlib.sha256(call.encode()).hexdigest()[:16]


def is_recorded(meta: Mapping[str, Any]) -> bool:
    """Whether a result stands for ever: a value, or the task's own error. A fault of the machinery does not."""
    if meta["status"] == "FAILURE":
        error = meta["result"]
        return not (isinstance(error, dict) and error.get("exc_module") == _ERRORS)
    return bool(meta["status"] == "SUCCESS")


def check_same(meta: Mapping[str, Any], key: str, call: str) -> None:
    """Raise InvalidAction if the recorded result is that of another call."""
    if meta.get(CALL, call) != call:
        raise InvalidAction(f"action_key {key!r} was used for another call: a replay must make the same calls in order")
