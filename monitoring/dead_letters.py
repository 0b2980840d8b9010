"""Messages that could not be admitted: to look at, to send in again, to drop."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, ValidationError

from tangram_tasks.errors import ConfigurationError
from tangram_tasks.keys import ADMISSION_QUEUE, Keys

if TYPE_CHECKING:
    from redis import Redis


class DeadLetter(BaseModel):
    """One message.

    Args:
        id: names it.
        at: when it was refused, wall clock, s.
        reason: why.
        raw: the message.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    id: str
    at: float
    reason: str
    raw: str

    @property
    def action(self) -> str:
        """Its action's id, if that can be read."""
        try:
            return str(json.loads(self.raw)["headers"]["id"])
        except (ValueError, KeyError, TypeError, RecursionError):
            return "?"


class DeadLetters:
    """The dead-letter list of a deployment; the scheduler keeps the last 1000.

    Args:
        client: connection to the broker.
        keys: names.
    """

    def __init__(self, client: Redis, keys: Keys) -> None:
        self._client = client
        self._keys = keys

    def all(self) -> list[DeadLetter]:
        """Return all, the newest first."""
        return [letter for _, letter in self._rows()]

    def find(self, name: str) -> DeadLetter:
        """Return one by its id. Raises ConfigurationError if there is none."""
        return self._row(name)[1]

    def drop(self, name: str) -> DeadLetter:
        """Forget one. Raises ConfigurationError if there is none."""
        row, letter = self._row(name)
        self._client.lrem(self._keys.dead, 1, row)
        return letter

    def requeue(self, name: str) -> DeadLetter:
        """Send one in again, in one step. Raises ConfigurationError if there is none."""
        row, letter = self._row(name)
        pipeline = self._client.pipeline(transaction=True)
        pipeline.lrem(self._keys.dead, 1, row)
        pipeline.lpush(ADMISSION_QUEUE, letter.raw)
        pipeline.execute()
        return letter

    def _row(self, name: str) -> tuple[str, DeadLetter]:
        for row, letter in self._rows():
            if letter.id == name:
                return row, letter
        raise ConfigurationError(f"no dead letter is called {name}: see `tangram dead ls`")

    def _rows(self) -> list[tuple[str, DeadLetter]]:
        rows: Any = self._client.lrange(self._keys.dead, 0, -1)
        letters = []
        for row in rows:
            try:
                letters.append((row.decode(), DeadLetter.model_validate_json(row)))
            except ValidationError:  # another version's
                continue
        return letters
