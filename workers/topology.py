"""Which logical CPUs share a core, and which cores share a NUMA node, as /sys/devices/system shows it.

Kernel documentation: admin-guide/cputopology, and ABI/stable/sysfs-devices-node.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

_SYSTEM = Path("sys/devices/system")


@dataclass(frozen=True, slots=True)
class Topology:
    """The CPUs that a node may use.

    Args:
        core_of: CPU to the lowest CPU of its core: SMT siblings have the same one.
        numa_of: CPU to its NUMA node.
    """

    core_of: Mapping[int, int]
    numa_of: Mapping[int, int]

    def siblings(self, cpu: int) -> set[int]:
        """The CPUs on the same core, itself included."""
        return {other for other, core in self.core_of.items() if core == self.core_of[cpu]}


def read_topology(cpus: Iterable[int], root: Path = Path("/")) -> Topology:
    """Read what /sys says of these CPUs. What it does not say counts as: a core each, all on one NUMA node.

    Args:
        cpus: ids.
        root: where `sys` is, for tests.
    """
    wanted = sorted(cpus)
    core_of = {
        cpu: min(_list(root / _SYSTEM / f"cpu/cpu{cpu}/topology/thread_siblings_list") or [cpu]) for cpu in wanted
    }
    numa_of = dict.fromkeys(wanted, 0)
    for folder in (root / _SYSTEM / "node").glob("node[0-9]*"):
        for cpu in _list(folder / "cpulist"):
            if cpu in numa_of:
                numa_of[cpu] = int(folder.name.removeprefix("node"))
    return Topology(core_of, numa_of)


def parse_cpus(text: str) -> list[int]:
    """Return the ids in the kernel's list format, for example "0-2,8"."""
    found: list[int] = []
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        if first:
            found += range(int(first), int(last or first) + 1)
    return found


def _list(file: Path) -> list[int]:
    try:
        return parse_cpus(file.read_text())
    except OSError:
        return []
