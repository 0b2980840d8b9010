"""The node's book of CPU units: which are free, and which CPUs belong to whom."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tangram_tasks.action import Qos
from tangram_tasks.errors import ConfigurationError
from workers.core_choice import choose, surplus
from workers.grant_unheld import GrantUnheld
from workers.topology import Topology, read_topology


@dataclass(frozen=True, slots=True)
class Share:
    """Units taken from the book.

    Args:
        units: how many.
        cpus: the logical CPUs, if a unit is a whole one; else empty: fractions share all of them by quota.
        qos: whom they serve.
    """

    units: int
    cpus: tuple[int, ...] = ()
    qos: Qos = "ls"


class CpuBook:
    """Hands out units and refuses to hand out more than there are. Thread safe.

    Latency-sensitive and best-effort shares never meet on one core: SMT siblings slow each other down.

    Args:
        cpus: ids of the CPUs that the node may use.
        cores: how many of them, may be a fraction.
        cpu_unit: CPUs per unit, in (0, 1]; at 1 every unit is a CPU of its own.
        topology: how they are wired; by default as /sys says.

    Raises:
        ConfigurationError: not even one unit fits.
    """

    def __init__(self, cpus: Sequence[int], cores: float, cpu_unit: float, topology: Topology | None = None) -> None:
        if not 0 < cpu_unit <= 1:
            raise ConfigurationError(f"a CPU unit must be more than 0 and at most 1 core, not {cpu_unit:g}")
        if not cpu_unit <= cores <= len(cpus):
            raise ConfigurationError(
                f"{cores:g} cores were asked for; this machine lets us use {len(cpus)}, and a unit is {cpu_unit:g}"
            )
        self.cpu_unit = cpu_unit
        self.units = int(cores / cpu_unit + 1e-9)
        self._topology = topology or read_topology(cpus)
        self._cpus = frozenset(choose(self._topology, cpus, self.units) or ()) if cpu_unit == 1 else frozenset()
        self._lock = threading.Lock()
        self._free_units = self.units
        self._held: dict[int, Qos] = {}

    @property
    def free(self) -> int:
        """Units nobody holds."""
        return self._free_units

    def take(self, units: int, qos: Qos = "ls") -> Share:
        """Take units. Raises GrantUnheld if there are not as many, or none on cores apart from the other class."""
        return self._take(Share(0, (), qos), units)

    def light(self, qos: Qos) -> Share:
        """Return the share of a light action: no units, any of the CPUs. It is not given back."""
        return Share(0, tuple(sorted(self._cpus)), qos)

    def more(self, share: Share, units: int) -> tuple[Share, Share]:
        """Return a share of `units` in all that replaces `share`, and what was added to it. Raises GrantUnheld."""
        added = self._take(share, units - share.units)
        return Share(units, tuple(sorted((*share.cpus, *added.cpus))), share.qos), added

    def less(self, share: Share, units: int) -> tuple[Share, Share]:
        """Split a share into one of `units`, and the rest, which is still to be given back."""
        gone = surplus(self._topology, share.cpus, share.units - units) if share.cpus else ()
        kept = tuple(cpu for cpu in share.cpus if cpu not in gone)
        return Share(units, kept, share.qos), Share(share.units - units, gone, share.qos)

    def give_back(self, share: Share) -> None:
        """Return a share, once."""
        with self._lock:
            self._free_units += share.units
            for cpu in share.cpus:
                self._held.pop(cpu, None)

    def settle(self, live: Iterable[Share]) -> int:
        """Make the book say what is really held. Returns how many units it was off by; 0 when all is well."""
        shares = list(live)
        held: dict[int, Qos] = {cpu: share.qos for share in shares for cpu in share.cpus}
        free = self.units - sum(share.units for share in shares)
        with self._lock:
            wrong = max(abs(self._free_units - free), len(self._held.keys() ^ held.keys()))
            self._free_units, self._held = free, held
        return wrong

    def _take(self, beside: Share, units: int) -> Share:
        qos = beside.qos
        with self._lock:
            if not 1 <= units <= self._free_units:
                raise GrantUnheld(f"{units} CPU units were granted, {self._free_units} of {self.units} are free here")
            cpus: tuple[int, ...] | None = ()
            if self._cpus:
                cpus = choose(self._topology, self._open_to(qos), units, near=beside.cpus, last=qos == "be")
            if cpus is None:
                raise GrantUnheld(
                    f"{units} CPU units were granted, {self._free_units} are free here, but too few on cores apart from"
                    f" actions of another class than {qos!r}"
                )
            self._free_units -= units
            self._held.update(dict.fromkeys(cpus, qos))
            return Share(units, cpus, qos)

    def _open_to(self, qos: Qos) -> set[int]:
        """CPUs that nobody holds, on cores where nobody of another class holds one."""
        foreign = {self._topology.core_of[cpu] for cpu, holder in self._held.items() if holder != qos}
        return {cpu for cpu in self._cpus if cpu not in self._held and self._topology.core_of[cpu] not in foreign}
