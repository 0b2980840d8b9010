"""The GPU node as the runtime sees it: reward models paged in per action."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping

from tangram_tasks.context import ActionContext
from tangram_tasks.errors import NodeLost, ServiceUnavailable
from tangram_tasks.orders import NodeOrder, PageIn, ServiceAnswer, ServiceOrder
from tangram_tasks.resources import GPU
from tangram_tasks.sharing import QuotaRecord
from tangram_tasks.wire import ActionHeader, GrantHeader, NodeKind
from workers.gpu_node import GpuNode
from workers.grant_unheld import GrantUnheld
from workers.node import Applied, Usage
from workers.service_lease import ServiceLease
from workers.service_orders import obey_service_order


class GpuWorker:
    """Applies grants on a GpuNode.

    Args:
        name: node name.
        node: devices and services.
    """

    kind: NodeKind = "gpu"
    quotas: Mapping[str, QuotaRecord] = {}
    trajectories: tuple[str, ...] = ()

    def __init__(self, name: str, node: GpuNode) -> None:
        self.name = name
        self._node = node
        self.slots = self.capacity[GPU] + 2

    @property
    def capacity(self) -> Mapping[str, int]:
        """Devices."""
        return self._node.capacity

    @property
    def services(self) -> tuple[str, ...]:
        """Reward models it holds in host memory."""
        return self._node.services

    @contextlib.contextmanager
    def apply(self, action: str, header: ActionHeader, grant: GrantHeader) -> Iterator[Applied]:
        """Page the service in and pin it.

        Raises:
            ServiceUnavailable: this node does not hold it, or cannot page it in.
            GrantUnheld: a device was lost meanwhile; the action may run again.
            NodeLost: the same, and it may not.
        """
        service, timeout = header.spec.service, header.spec.timeout
        if service is None:
            yield Applied(ActionContext(action=action, units=grant.units, deadline=time.monotonic() + timeout))
            return
        if service not in self.services:
            raise ServiceUnavailable(f"node {self.name} has no service {service!r}; it has {', '.join(self.services)}")
        self._node.outlook.hint(grant.next_services)
        units = self._units(service, header, grant)
        usage = Usage()
        limit = time.monotonic() + timeout
        lease: ServiceLease | None = None
        try:
            with self._node.lease(service=service, action=action, units=units, deadline=limit) as lease:
                usage.restore_s = lease.usage.restore_s
                usage.page_ins = lease.usage.page_ins
                deadline = lease.begin(timeout)
                yield Applied(ActionContext(action=action, units=units, deadline=deadline, service=lease), usage)
        except Exception:
            if lease is None or not lease.lost:
                raise
        if lease.lost:  # also if it made something of that: it did not have its scores
            kind = GrantUnheld if header.spec.on_lost == "requeue" else NodeLost
            raise kind(f"action {action}: {lease.lost}")

    def _units(self, service: str, header: ActionHeader, grant: GrantHeader) -> int:
        """Return the largest of the action's sizes within its grant that the service takes here."""
        sizes = [size for size in header.spec.demand.sizes.get(GPU, ()) if size <= grant.units]
        return next((size for size in reversed(sizes) if self._node.takes(service, size)), grant.units)

    def cancel(self, action: str) -> bool:
        """Refuse the action's next batch."""
        return self._node.cancel(action)

    def obey(self, order: NodeOrder) -> ServiceAnswer | None:
        """Carry out a page-in hint, or look at services and move them by hand; GPU nodes have no sandboxes."""
        if isinstance(order, PageIn):
            self._node.page_in(order.service, order.devices)
        return obey_service_order(self._node, order) if isinstance(order, ServiceOrder) else None

    def units_of(self, action: str, grant: str) -> int:
        """See Node: it does not count them."""
        return 0

    def stats(self) -> dict[str, float]:
        """Page-ins, hits, bytes moved."""
        return self._node.stats()

    def stop(self) -> None:
        """Page everything out."""
        self._node.stop()
