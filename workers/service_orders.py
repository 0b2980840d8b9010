"""What people ask of a node's services by hand."""

from __future__ import annotations

import time

from tangram_tasks.errors import InvalidAction, ServiceUnavailable, TangramError
from tangram_tasks.wire import ServiceAnswer, ServiceOrder
from workers.gpu_node import GpuNode


def obey_service_order(node: GpuNode, order: ServiceOrder) -> ServiceAnswer:
    """Carry an order out; what goes wrong is in the answer."""
    names = (order.service,) if order.service else node.services
    try:
        if not order.service and order.verb != "ls":
            raise InvalidAction(f"{order.verb} needs the name of a service")
        message = _obey(node, order, time.monotonic() + order.timeout)
        states = tuple(state for name in names for state in node.states(name))
        return ServiceAnswer(node=node.node, ok=True, message=message, states=states)
    except TangramError as error:
        return ServiceAnswer(node=node.node, ok=False, message=str(error))


def _obey(node: GpuNode, order: ServiceOrder, deadline: float) -> str:
    service = order.service
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
            return _ask_canary(node, service, deadline)


def _ask_canary(node: GpuNode, service: str, deadline: float) -> str:
    found = node.find(service)
    if found.canary is None:
        raise InvalidAction(f"service {service} was declared without a canary")
    units = min(map(len, found.spans), default=1)
    with node.lease(service=service, action=f"canary of {service}", units=units, deadline=deadline) as lease:
        problem = found.canary.complaint(lease.call(found.canary.method, found.canary.payload))
    if problem:
        raise ServiceUnavailable(f"service {service} answers wrongly: {problem}")
    return f"{service} answers its canary rightly"
