"""The books of one device: which services it knows, where they are, and who makes room. Not thread safe."""

from __future__ import annotations

from collections.abc import Mapping

from tangram_tasks.errors import ConfigurationError, ServiceUnavailable
from tangram_tasks.orders import ServiceState
from workers.arena import Arena, aligned
from workers.page_out import Idle, PageOutPolicy
from workers.residency import Counters, Entry, Residency
from workers.service import Paged

MIB = 1 << 20


class DeviceBooks:
    """Entries and the arena they share; its pager locks.

    Args:
        device: its name, for messages.
        budget: bytes of the device's arena.
        policy: which services make room.
    """

    def __init__(self, device: str, budget: int, policy: PageOutPolicy) -> None:
        self.device = device
        self.counters = Counters()
        self.entries: dict[str, Entry] = {}
        self._arena = Arena(budget)
        self._policy = policy
        self._uses = 0

    def add(self, service: str, paged: Paged) -> None:
        """Enter a parked service. Raises ConfigurationError if the whole device could not hold it."""
        need = aligned(paged.nbytes)
        if need > self._arena.budget:
            raise ConfigurationError(
                f"service {service} needs {need / MIB:.1f} MiB, and device {self.device} has a budget of "
                f"{self._arena.budget / MIB:.1f} MiB: raise the budget or leave the service out"
            )
        self.entries[service] = Entry(service, paged)

    def fits_beside(self, entry: Entry) -> bool:
        """Whether a hole is large enough for the service."""
        need = aligned(entry.paged.nbytes)
        return any(slab.owner is None and slab.nbytes >= need for slab in self._arena)

    def take(self, entry: Entry) -> int | None:
        """Charge a service that is parked; return its offset, or None if no hole is large enough."""
        offset = self._arena.alloc(entry.service, entry.paged.nbytes)
        entry.charged = offset is not None
        return offset

    def victims(self, entry: Entry, next_uses: Mapping[str, int]) -> list[Entry]:
        """Return whom to page out for a service; nobody if it must wait.

        Args:
            entry: the service.
            next_uses: places of services among the known future uses, 0 is next.
        """
        worths = {
            name: self._policy.worth(
                Idle(
                    nbytes=other.paged.nbytes,
                    age=self._uses - other.last_use,
                    heat=other.heat_at(self._uses),
                    seconds=other.seconds,
                    next_use=next_uses.get(name),
                )
            )
            for name, other in self.entries.items()
            if other.idle
        }
        return [self.entries[name] for name in self._arena.window(entry.paged.nbytes, worths) or ()]

    def used(self, entry: Entry) -> None:
        """Note a use that ended."""
        self._uses += 1
        entry.use(self._uses)

    def paged_in(self, entry: Entry, seconds: float) -> None:
        """Note that a service is resident."""
        entry.state = Residency.RESIDENT
        entry.took(seconds)
        entry.page_ins += 1
        self.counters.page_ins += 1
        self.counters.bytes_in += entry.paged.nbytes

    def paged_out(self, entry: Entry, left: int, reason: str) -> None:
        """Note that a service is parked, or has failed.

        Args:
            entry: the service.
            left: bytes that it did not give back; they stay charged.
            reason: why it has failed, or "".
        """
        if entry.charged:
            self._arena.release(entry.service, but=left)
            entry.charged = left > 0
        self.counters.page_outs += entry.state is Residency.DRAINING and not left
        entry.state, entry.reason = (Residency.FAILED if reason else Residency.PARKED), reason

    def state(self, service: str) -> ServiceState:
        """Return what people may know of a service here."""
        entry = self.entries[service]
        return ServiceState(
            service=service,
            device=self.device,
            state=entry.state.value,
            reason=entry.reason,
            nbytes=entry.paged.nbytes,
            kept=entry.kept,
            in_use=len(entry.pins),
            page_ins=entry.page_ins,
            hits=entry.hits,
        )

    def crowded(self, entry: Entry, action: str) -> ServiceUnavailable:
        """Return the error of an action that found no room in time."""
        holders = ", ".join(sorted({pin for other in self.entries.values() for pin in other.pins})) or "nobody"
        kept = ", ".join(sorted(other.service for other in self.entries.values() if other.kept)) or "nothing"
        failed = [other.service for other in self.entries.values() if other.state is Residency.FAILED and other.charged]
        stuck = f", not given back: {', '.join(sorted(failed))}" if failed else ""
        return ServiceUnavailable(
            f"service {entry.service} ({entry.paged.nbytes / MIB:.1f} MiB) found no room on device {self.device} "
            f"(budget {self._arena.budget / MIB:.1f} MiB) before the deadline of action {action}; in use by {holders}, "
            f"kept: {kept}{stuck}: raise the budget, or run fewer services on this device at once"
        )
