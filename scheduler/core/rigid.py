"""What policies have in common that never resize and never wait for a moment: nothing changes by time alone."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import ClassVar

from scheduler.core.completion import Running
from scheduler.core.events import Action

#: All jobs have the same weight.
EQUAL: Mapping[str, int] = MappingProxyType({})


class RigidPolicy:
    """Base of policies whose decisions change only when something happens."""

    __slots__ = ()
    resizes: ClassVar[bool] = False

    def look(
        self, now: int, free: Mapping[str, int], running: Collection[Running], queue: Sequence[Action]
    ) -> int | None:
        """Return None: time alone changes nothing."""
        return None
