"""The inventory through the real bindings, with a driver library built here."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

COMPILER = shutil.which("cc")
pytestmark = pytest.mark.skipif(COMPILER is None, reason="no C compiler to build the stub of the driver library with")

#: Four GPUs, linked 0-1 and 2-3; GPU 3 has two MIG instances if MIG is set; LOST names one that fell off the bus. It is
#: old: it has no nvmlDeviceGetNumaNodeId.
STUB = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
typedef unsigned long id;
static int lost(id d) { const char *l = getenv("LOST"); return l && (id)atoi(l) + 1 == d; }
int nvmlInitWithFlags(unsigned f) { return 0; }
int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }
const char *nvmlErrorString(int e) { return "stub"; }
int nvmlDeviceGetCount_v2(unsigned *n) { *n = 4; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, id *d) { *d = i + 1; return lost(i + 1) ? 15 : 0; }
int nvmlDeviceGetHandleByUUID(const char *u, id *d) { *d = atoi(u + 4) + 1; return lost(*d) ? 15 : *d > 4 ? 6 : 0; }
int nvmlDeviceGetUUID(id d, char *t, unsigned n) { snprintf(t, n, d > 9 ? "MIG-%lu" : "GPU-%lu", d - 1); return 0; }
int nvmlDeviceGetName(id d, char *t, unsigned n) { snprintf(t, n, "Stub H200"); return 0; }
int nvmlDeviceGetMemoryInfo(id d, unsigned long long *m) { m[0] = 1000; m[1] = 900; m[2] = 100; return 0; }
int nvmlDeviceGetP2PStatus(id a, id b, unsigned k, unsigned *s) { *s = (a - 1) / 2 == (b - 1) / 2 ? 0 : 5; return 0; }
int nvmlDeviceGetMigMode(id d, unsigned *now, unsigned *later) {
    if (!getenv("MIG")) return 3;
    *now = *later = d == 4;
    return 0;
}
int nvmlDeviceGetMaxMigDeviceCount(id d, unsigned *n) { *n = 7; return 0; }
int nvmlDeviceGetMigDeviceHandleByIndex(id d, unsigned i, id *m) { *m = 10 + i; return i < 2 ? 0 : 6; }
"""

PROGRAM = """
import json
from workers.cells import CellTree
from workers.devices import groups_of, poll, probe
found = probe()
print(json.dumps({
    "ids": [device.id for device in found.devices],
    "free": [device.free_bytes for device in found.devices],
    "groups": groups_of(found.devices),
    "pairs": CellTree(groups_of(found.devices)).choices(2),
    "reason": found.reason,
    "health": poll(["GPU-0", "GPU-1", "GPU-9"]),
}))
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the library; returns its folder."""
    folder = tmp_path_factory.mktemp("nvml")
    source = folder / "stub.c"
    source.write_text(STUB, encoding="utf-8")
    assert COMPILER is not None
    subprocess.run([COMPILER, "-shared", "-fPIC", "-o", folder / "libnvidia-ml.so.1", source], check=True, timeout=60)
    return folder


def _probe(library: Path, **variables: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "LD_LIBRARY_PATH": str(library), **variables},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_gpus_are_grouped_by_nvlink(library: Path) -> None:
    found = _probe(library)
    assert found["ids"] == ["GPU-0", "GPU-1", "GPU-2", "GPU-3"]
    assert found["free"] == [900] * 4
    assert found["groups"] == [[0, 1], [2, 3]]
    assert found["pairs"] == [[0, 1], [2, 3]]
    assert found["reason"] == ""
    assert found["health"] == {"GPU-0": "ok", "GPU-1": "ok", "GPU-9": "unknown"}


def test_mig_instances_are_devices_that_stand_alone(library: Path) -> None:
    found = _probe(library, MIG="1")
    assert found["ids"] == ["GPU-0", "GPU-1", "GPU-2", "MIG-9", "MIG-10"]
    assert found["groups"] == [[0, 1], [2], [3], [4]]
    assert found["pairs"] == [[0, 1]]


def test_a_lost_gpu_is_named_and_polled_as_lost(library: Path) -> None:
    found = _probe(library, LOST="1")
    assert found["ids"] == ["GPU-0", "GPU-2", "GPU-3"]
    assert "GPU 1" in found["reason"]
    assert found["health"]["GPU-1"] == "lost"
