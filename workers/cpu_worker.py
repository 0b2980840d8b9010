"""The CPU node as the runtime sees it: sandboxes by trajectory, grants applied to their cgroups."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterator, Mapping

from tangram_tasks.context import ActionContext
from tangram_tasks.egress import ChangeEgress, Egress
from tangram_tasks.errors import SandboxError, TangramError
from tangram_tasks.orders import CloseSandbox, KeepWarm, NodeOrder, OpenSandbox, ResizeAction
from tangram_tasks.resources import CPU, MEMORY
from tangram_tasks.sharing import QuotaRecord
from tangram_tasks.wire import ActionHeader, ActionResized, GrantHeader, NodeEvent, NodeKind, SandboxState
from workers.cpu_node import CpuNode
from workers.node import Applied, Usage

logger = logging.getLogger(__name__)


class CpuWorker:
    """Applies grants on a CpuNode.

    Args:
        name: node name.
        node: the sandboxes.
    """

    kind: NodeKind = "cpu"
    quotas: Mapping[str, QuotaRecord] = {}
    services: tuple[str, ...] = ()

    def __init__(self, name: str, node: CpuNode) -> None:
        self.name = name
        self._node = node
        #: Every unit may hold an action of its own; some threads more, so that a granted action never waits.
        self.slots = self.capacity[CPU] + 4

    @property
    def capacity(self) -> Mapping[str, int]:
        """Units and MiB."""
        return self._node.capacity

    @property
    def trajectories(self) -> tuple[str, ...]:
        """The trajectories whose sandboxes are up."""
        return self._node.trajectories

    @contextlib.contextmanager
    def apply(self, action: str, header: ActionHeader, grant: GrantHeader) -> Iterator[Applied]:
        """Grow the trajectory's sandbox for the length of the context. Raises SandboxError if it is gone."""
        if not header.spec.sandbox:
            deadline = time.monotonic() + header.spec.timeout
            yield Applied(ActionContext(action=action, units=grant.units, deadline=deadline))
            return
        usage = Usage()
        with (
            self._home(action, header, grant.egress) as trajectory,
            self._node.lease(
                trajectory=trajectory,
                action=action,
                units=grant.units,
                max_units=self._largest(header),
                deadline=(deadline := time.monotonic() + header.spec.timeout),
                grant=grant.id,
                qos=header.spec.qos,
            ) as lease,
        ):
            context = ActionContext(action=action, units=lease.units, deadline=deadline, sandbox=lease)
            try:
                yield Applied(context, usage)
            finally:
                usage.cpu_seconds = lease.usage.cpu_seconds
                usage.peak_memory = lease.usage.peak_memory
                usage.units_over_time = lease.usage.units_over_time
        usage.resize_s = lease.usage.resize_s

    @contextlib.contextmanager
    def _home(self, action: str, header: ActionHeader, egress: Egress | None) -> Iterator[str]:
        """Yield the name under which the node knows the action's sandbox: its trajectory's, or one of its own."""
        if header.spec.image is None:
            trajectory = header.trajectory or ""
            if egress is not None:
                self._node.change_egress(trajectory, egress)
            yield trajectory
            return
        with self._node.stateless(action, header.spec.image, header.spec.demand.minimum[MEMORY]):
            yield action

    def _largest(self, header: ActionHeader) -> int:
        """The largest size that this node could ever grant: more workers than that would only be overhead."""
        return max(size for size in header.spec.demand.sizes[CPU] if size <= self.capacity[CPU])

    def cancel(self, action: str) -> bool:
        """Kill what the action runs."""
        return self._node.cancel(action)

    def obey(self, order: NodeOrder) -> NodeEvent | None:
        """Make or remove a sandbox, or resize a running action."""
        if isinstance(order, OpenSandbox):
            return self._open(order)
        if isinstance(order, CloseSandbox):
            self._node.close(order.trajectory)
        if isinstance(order, ResizeAction):
            return self._resize(order)
        if isinstance(order, ChangeEgress):
            self._change_egress(order)
        if isinstance(order, KeepWarm):
            self._keep_warm(order)
        return None

    def _change_egress(self, order: ChangeEgress) -> None:
        try:
            self._node.change_egress(order.trajectory, order.egress)
        except SandboxError as error:  # no action runs until it is done
            logger.warning("trajectory %s is not in network %s yet: %s", order.trajectory, order.egress.network, error)

    def _keep_warm(self, order: KeepWarm) -> None:
        try:
            self._node.keep_warm(order.image, order.memory, order.count)
        except TangramError as error:
            logger.warning("an order of an operator is refused: %s", error)

    def _resize(self, order: ResizeAction) -> ActionResized:
        try:
            done, reason = self._node.resize(order.action, order.units, order.grant), "it does not run here"
        except TangramError as error:
            done, reason = False, str(error)
        return ActionResized(
            node=self.name,
            action=order.action,
            grant=order.grant,
            units=self._node.units_of(order.action, order.grant) or (order.units if done else 0),
            ok=done,
            reason="" if done else reason,
            turn=order.turn,
        )

    def _open(self, order: OpenSandbox) -> SandboxState:
        trajectory = order.order.trajectory
        try:
            self._node.open(order.order)
        except SandboxError as error:
            return SandboxState(node=self.name, trajectory=trajectory, ready=False, reason=str(error))
        except Exception as error:  # noqa: BLE001  # whatever it is, the waiting actions must hear of it
            reason = f"{type(error).__name__}: {error}"
            return SandboxState(node=self.name, trajectory=trajectory, ready=False, reason=reason)
        return SandboxState(node=self.name, trajectory=trajectory, ready=True)

    def units_of(self, action: str, grant: str) -> int:
        """See Node."""
        return self._node.units_of(action, grant)

    def stats(self) -> dict[str, float]:
        """Sandboxes and resizes so far."""
        return self._node.stats()

    def stop(self) -> None:
        """Remove every sandbox."""
        self._node.stop()
