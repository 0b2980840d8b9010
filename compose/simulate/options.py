"""From what was asked on the command line to what is run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from compose.simulate.cluster import Cluster, CpuNodes, GpuNodes
from compose.simulate.comparison import Comparison
from compose.simulate.machines import Costs
from compose.simulate.policies import check
from compose.simulate.replay import recorded_batch
from compose.simulate.trace import read_trace
from compose.simulate.workloads.registry import Source, find
from compose.stack_config import read_toml, validated
from scheduler.record import Lead
from tangram_tasks.errors import ConfigurationError

_UNITS = {"ms": 0.001, "s": 1.0, "": 1.0, "m": 60.0, "h": 3600.0}


@dataclass(frozen=True, slots=True)
class Machinery:
    """The machines that were asked for; None leaves what the workload suggests.

    Args:
        file: a cluster file in TOML or YAML.
        nodes: CPU nodes.
        cores: of each.
        gpu_nodes: GPU nodes.
        gpus: devices of each.
    """

    file: Path | None = None
    nodes: int | None = None
    cores: int | None = None
    gpu_nodes: int | None = None
    gpus: int | None = None

    def cluster(self, suggested: Cluster) -> Cluster:
        """Return the machines.

        Raises:
            ConfigurationError: the file cannot be read, there are both a file and numbers, or there are no machines.
        """
        if self.file is not None and any((self.nodes, self.cores, self.gpu_nodes, self.gpus)):
            raise ConfigurationError(f"{self.file} says which machines there are: leave out --nodes, --cores and so on")
        base = suggested if self.file is None else validated(Cluster, _read(self.file))
        cpu = _changed(base.cpu[0].model_dump() if base.cpu else {}, {"count": self.nodes, "cores": self.cores})
        gpu = _changed(base.gpu[0].model_dump() if base.gpu else {}, {"count": self.gpu_nodes, "gpus": self.gpus})
        changes = {"cpu": cpu and (validated(CpuNodes, cpu),), "gpu": gpu and (validated(GpuNodes, gpu),)}
        cluster = base.model_copy(update={kind: groups for kind, groups in changes.items() if groups})
        if not cluster.capacity():
            raise ConfigurationError("a simulation needs machines: give --nodes, --gpu-nodes or --cluster FILE")
        return cluster


def comparison(
    source: Source,
    *,
    batches: list[int],
    policies: list[str],
    seeds: int,
    malleable: float,
    machinery: Machinery,
    costs: Costs,
) -> Comparison:
    """Return what is to be run; an empty `batches` means the usual one. Raises ConfigurationError."""
    for policy in policies:
        check(policy)
    sizes = batches or [source.batch]
    for batch in sizes:
        machinery.cluster(source.cluster(batch))
    return Comparison(
        draw=lambda batch, seed: source.draw(source.name, batch, seed, malleable),
        cluster=lambda batch: machinery.cluster(source.cluster(batch)),
        batches=sizes,
        policies=policies,
        seeds=range(1, seeds + 1),
        costs=costs,
    )


def source_of(workload: str, trace: Path | None, leads: list[Lead]) -> Source:
    """Return where the batches come from. A trace or a record is one batch, whatever the seed."""
    if trace is not None:
        batch, cluster, about = read_trace(trace), Cluster(), f"trace {trace.name}"
    elif leads:
        (batch, cluster), about = recorded_batch(leads), "recorded arrivals"
    else:
        return find(workload)
    if not batch.plans:
        raise ConfigurationError("no action in the record ran to its end: there is nothing to simulate")
    return Source(batch.name, about, len(batch.plans), lambda _: cluster, lambda *_: batch)


def parse_seconds(text: str) -> float:
    """Return the seconds in "400s", "2.5", "150ms", "2m" or "1h". Raises ConfigurationError if it is none of them."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|)", text.strip())
    if match is None or not float(match[1]):
        raise ConfigurationError(f"{text!r} is no length of time above 0: write for example 400s, 2.5s or 150ms")
    return float(match[1]) * _UNITS[match[2]]


def _read(file: Path) -> dict[str, Any]:
    if file.suffix not in (".yaml", ".yml"):
        return read_toml(file)
    try:
        content = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigurationError(f"cannot read {file}: {error}") from None
    if not isinstance(content, dict) or not all(isinstance(name, str) for name in content):
        raise ConfigurationError(f"{file} is no cluster file: it needs the sections cpu, gpu or providers")
    return content


def _changed(base: Mapping[str, int], asked: Mapping[str, int | None]) -> dict[str, int]:
    """Return the base with what was asked for, or nothing if nothing was."""
    given = {name: value for name, value in asked.items() if value is not None}
    return {**base, **given} if given else {}
