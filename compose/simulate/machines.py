"""The simulated machines: they carry out grants and resizes, and say when an action has ended."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from compose.simulate.agenda import Agenda
from compose.simulate.cluster import Cluster
from compose.simulate.devices import Devices
from compose.simulate.execution import Execution
from compose.simulate.provider import ProviderModel
from compose.simulate.work import Workload
from scheduler.core.domain import API_PREFIX
from scheduler.core.events import PageIn
from scheduler.core.gpu_node import GPU


@dataclass(frozen=True, slots=True)
class Costs:
    """What the machinery adds, ms.

    Args:
        cpu: between grant and start of a CPU action.
        gpu: the same on a GPU whose service is resident; a page-in comes on top.
        api: the same for an API call.
        sandbox: making a trajectory's sandbox.
    """

    cpu: int = 5
    gpu: int = 5
    api: int = 1
    sandbox: int = 400


class Machines:
    """All nodes of a cluster.

    Args:
        agenda: the clock.
        cluster: what there is.
        workload: says what a page-in costs.
        costs: what the machinery adds.
        random: of the back-off of refused API calls.
        ended: called with every action that ended.
    """

    def __init__(
        self,
        agenda: Agenda,
        cluster: Cluster,
        workload: Workload,
        costs: Costs,
        random: Random,
        ended: Callable[[Execution], None],
    ) -> None:
        self._agenda = agenda
        self._costs = costs
        self._ended = ended
        self._devices = {name: Devices(gpus, workload.restores) for name, gpus in cluster.devices().items()}
        self._providers = {
            API_PREFIX + name: ProviderModel(provider.quota, random) for name, provider in cluster.providers.items()
        }

    @property
    def page_ins(self) -> int:
        """Services brought onto devices so far."""
        return sum(devices.page_ins for devices in self._devices.values())

    @property
    def refused(self) -> int:
        """API calls answered with 429 so far."""
        return sum(provider.refused for provider in self._providers.values())

    def start(self, execution: Execution) -> None:
        """Carry out a grant."""
        key = execution.work.key
        if key == GPU:
            restore = self._devices[execution.node].start(self._agenda.now, execution)
            if restore is not None:
                self._begin(execution, self._costs.gpu + restore)
        elif key in self._providers:
            self._agenda.at(self._agenda.now + self._costs.api, self._call, execution)
        else:
            self._begin(execution, self._costs.cpu)

    def resize(self, execution: Execution, units: int) -> None:
        """Let a running action go on with other units."""
        end = execution.resize(self._agenda.now, units)
        self._agenda.at(end, self._end, (execution, execution.version))

    def page_in(self, hint: PageIn) -> None:
        """Carry out a hint."""
        self._devices[hint.node].page_in(self._agenda.now, hint.service, hint.devices)

    def _begin(self, execution: Execution, overhead: int) -> None:
        end = execution.begin(self._agenda.now + overhead)
        self._agenda.at(end, self._end, (execution, execution.version))

    def _call(self, execution: Execution) -> None:
        again = self._providers[execution.work.key].call(self._agenda.now, execution.name)
        if again:
            self._agenda.at(self._agenda.now + again, self._call, execution)
        else:
            self._begin(execution, 0)

    def _end(self, subject: tuple[Execution, int]) -> None:
        execution, version = subject
        if version != execution.version:
            return  # it was resized meanwhile and ends at another time
        execution.end(self._agenda.now)
        key = execution.work.key
        if key == GPU:
            for other, restore in self._devices[execution.node].end(self._agenda.now, execution):
                self._begin(other, self._costs.gpu + restore)
        elif key in self._providers:
            self._providers[key].end()
        self._ended(execution)
