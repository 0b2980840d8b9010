"""The node's book of CPU units: which are free, and which cores belong to whom."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass

from tangram_tasks.errors import ConfigurationError, SandboxError


@dataclass(frozen=True, slots=True)
class Share:
    """Units taken from the book.

    Args:
        units: how many.
        cpus: the cores, if a unit is a whole core; else empty: fractions share all cores by quota.
    """

    units: int
    cpus: tuple[int, ...] = ()


class CpuBook:
    """Hands out units and refuses to hand out more than there are. Thread safe.

    Args:
        cpus: ids of the cores that the node may use.
        cores: how many of them, may be a fraction.
        cpu_unit: cores per unit, in (0, 1]; at 1 every unit is a core of its own.

    Raises:
        ConfigurationError: not even one unit fits.
    """

    def __init__(self, cpus: Sequence[int], cores: float, cpu_unit: float) -> None:
        if not 0 < cpu_unit <= 1:
            raise ConfigurationError(f"a CPU unit must be more than 0 and at most 1 core, not {cpu_unit:g}")
        if not cpu_unit <= cores <= len(cpus):
            raise ConfigurationError(
                f"{cores:g} cores were asked for; this machine lets us use {len(cpus)}, and a unit is {cpu_unit:g}"
            )
        self.cpu_unit = cpu_unit
        self.units = int(cores / cpu_unit + 1e-9)
        self._lock = threading.Lock()
        self._free_units = self.units
        self._free_cpus = sorted(cpus)[: self.units] if cpu_unit == 1 else []

    @property
    def free(self) -> int:
        """Units nobody holds."""
        return self._free_units

    def take(self, units: int) -> Share:
        """Take units, lowest cores first. Raises SandboxError if there are not as many."""
        with self._lock:
            if not 1 <= units <= self._free_units:
                raise SandboxError(f"{units} CPU units were granted, {self._free_units} of {self.units} are free here")
            self._free_units -= units
            cpus, self._free_cpus = self._free_cpus[:units], self._free_cpus[units:]
            return Share(units, tuple(cpus))

    def give_back(self, share: Share) -> None:
        """Return what `take` gave, once."""
        with self._lock:
            self._free_units += share.units
            self._free_cpus = sorted([*self._free_cpus, *share.cpus])
