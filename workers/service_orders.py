"""What people ask of a node's services by hand."""

from __future__ import annotations

import logging
import time

from tangram_tasks.errors import InvalidAction, ServiceUnavailable, TangramError
from tangram_tasks.orders import ServiceAnswer, ServiceOrder
from workers.gpu_node import GpuNode

logger = logging.getLogger(__name__)


def obey_service_order(node: GpuNode, order: ServiceOrder) -> ServiceAnswer:
    """Carry an order out; what goes wrong is in the answer."""
    names = (order.service,) if order.service else node.services
    try:
        message = _obey(node, order, time.monotonic() + order.timeout)
        states = tuple(state for name in names for state in node.states(name))
        return ServiceAnswer(node=node.node, ok=True, message=message, states=states)
    except TangramError as error:
        return ServiceAnswer(node=node.node, ok=False, message=str(error))
    except Exception as error:  # somebody waits for an answer, whatever it was
        logger.exception("node %s: %s of %s", node.node, order.verb, order.service)
        message = f"{order.verb} of {order.service}: {error!r}; see the node's log"
        return ServiceAnswer(node=node.node, ok=False, message=message)


def _obey(node: GpuNode, order: ServiceOrder, deadline: float) -> str:
    service = order.service
    if not service and order.verb != "ls":
        raise InvalidAction(f"{order.verb} needs the name of a service")
    match order.verb:
        case "ls":
            return ""
        case "load":
            node.load(service, deadline=deadline)
            return f"{service} is resident"
        case "park":
            node.park(service, deadline=deadline)
            return f"{service} is parked"
        case "pin":
            node.load(service, deadline=deadline)
            node.keep(service, kept=True)
            return f"{service} is resident and stays so"
        case "unpin":
            node.keep(service, kept=False)
            return f"{service} may make room for others"
        case "canary":
            return _ask_canary(node, order, deadline)


def _ask_canary(node: GpuNode, order: ServiceOrder, deadline: float) -> str:
    service = order.service
    found = node.find(service)
    if found.canary is None:
        raise InvalidAction(f"service {service} was declared without a canary")
    units = min(found.sizes or map(len, found.spans), default=1)
    action = f"canary of {service} ({order.reply})"  # several people may ask
    with node.lease(service=service, action=action, units=units, deadline=deadline) as lease:
        problem = found.canary.complaint(lease.call(found.canary.method, found.canary.payload))
    if problem:
        raise ServiceUnavailable(f"service {service} answers wrongly: {problem}")
    return f"{service} answers its canary rightly"
