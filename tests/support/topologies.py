"""Machines to place actions on."""

from __future__ import annotations

from pathlib import Path

from workers.topology import Topology, read_topology


def two_sockets(root: Path) -> Topology:
    """Two sockets with four cores of two threads: CPU n and n + 8 are siblings, 0-3 and 8-11 are on socket 0."""
    for cpu in range(16):
        folder = root / f"sys/devices/system/cpu/cpu{cpu}/topology"
        folder.mkdir(parents=True)
        (folder / "thread_siblings_list").write_text(f"{cpu % 8},{cpu % 8 + 8}\n")
    for node, cpus in enumerate(("0-3,8-11", "4-7,12-15")):
        folder = root / f"sys/devices/system/node/node{node}"
        folder.mkdir(parents=True)
        (folder / "cpulist").write_text(cpus + "\n")
    return read_topology(range(16), root)
