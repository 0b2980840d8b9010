"""Multi-teacher distillation: each trajectory asks one of several GPU services once, when it ends."""

from __future__ import annotations

import math
from functools import cache
from itertools import takewhile
from random import Random

from compose.simulate.cluster import Cluster, GpuNodes
from compose.simulate.work import Plan, Turn, Work, Workload, ms
from compose.simulate.workloads.draws import Lognormal, Tables, lognormal, packaged

Range = tuple[float, float]


class Mopd(Tables):
    """The parameters of `mopd.json`; lognormals are of seconds.

    Args:
        batch: trajectories.
        gpus: devices.
        minimum: of each service, the fewest devices it runs on.
        largest: the most devices any of them can use.
        speed_per_doubling: how many times faster a request is on twice the devices.
        popularity_zipf: exponent; the first service is asked most.
        exec: one request, before scaling.
        exec_scale: a + b x minimum, a factor on it.
        restore_s: page-in of a service, before scaling.
        restore_range: a factor on it, uniform, drawn per service.
        restore_scale: a + b x minimum, a factor on it.
        arrival_s: typical moment at which a trajectory ends, before scaling.
        arrival_service_sigma: of a factor on it that a service's trajectories share.
        arrival: a factor on it per trajectory.
        static_gpus: devices that a static deployment dedicates to each service.
    """

    batch: int
    gpus: int
    minimum: tuple[int, ...]
    largest: int
    speed_per_doubling: float
    popularity_zipf: float
    exec: Lognormal
    exec_scale: Range
    restore_s: float
    restore_range: Range
    restore_scale: Range
    arrival_s: float
    arrival_service_sigma: float
    arrival: Lognormal
    static_gpus: int

    def cluster(self, batch: int) -> Cluster:
        """Return the machines, whatever the batch."""
        return Cluster(gpu=(GpuNodes(count=self.gpus // 8),))


@cache
def parameters() -> Mopd:
    """Return the packaged parameters."""
    return packaged(Mopd, "mopd")


def draw(name: str, batch: int, seed: int, malleable_share: float) -> Workload:
    """Draw a batch. Nothing on a GPU is malleable: every resize would cost a page-in."""
    tables, random = parameters(), Random(seed)
    services = range(len(tables.minimum))
    popularity = [(place + 1) ** -tables.popularity_zipf for place in services]
    tendency = [math.exp(random.gauss(0, tables.arrival_service_sigma)) for _ in services]
    restores = {_name(service): _restore(tables, service, random) for service in services}
    plans = []
    for place in range(batch):
        service = random.choices(services, popularity)[0]
        start = ms(tables.arrival_s * tendency[service] * lognormal(random, tables.arrival))
        plans.append(Plan(f"t{place}", (Turn(0, (_request(tables, service, random),)),), start))
    return Workload(name, tuple(plans), restores=restores, static_gpus=tables.static_gpus)


def _name(service: int) -> str:
    return f"teacher-{service + 1}"


def _restore(tables: Mopd, service: int, random: Random) -> int:
    base, per_device = tables.restore_scale
    return ms(tables.restore_s * random.uniform(*tables.restore_range) * (base + per_device * tables.minimum[service]))


def _request(tables: Mopd, service: int, random: Random) -> Work:
    minimum = tables.minimum[service]
    base, per_device = tables.exec_scale
    seconds = lognormal(random, tables.exec) * (base + per_device * minimum)
    sizes = tuple(takewhile(lambda size: size <= tables.largest, (minimum << step for step in range(4))))
    durations = tuple(ms(seconds / tables.speed_per_doubling**step) for step in range(len(sizes)))
    return Work("score", "gpu", sizes, durations, service=_name(service))
