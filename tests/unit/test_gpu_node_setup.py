"""What a GPU node says when the machine lacks what it needs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tangram_tasks.errors import ConfigurationError
from workers import gpu_node
from workers.devices import Inventory
from workers.gpu_node import GpuNode


def test_without_a_gpu_it_says_why_and_how_to_emulate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_node, "probe", lambda: Inventory((), "none", "LibraryNotFound"))

    with pytest.raises(ConfigurationError, match=r"no usable GPU \(LibraryNotFound\): set devices and budget"):
        GpuNode(node="gpu-1", state_dir=tmp_path)


def test_without_torch_it_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [name for name in sys.modules if name.startswith("workers.torch_")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "torch", None)

    with pytest.raises(ConfigurationError, match=r"needs torch, which is not installed: install tangram-rl\[gpu\]"):
        GpuNode(node="gpu-1", state_dir=tmp_path, devices=1)


def test_a_node_of_services_elsewhere_needs_no_torch(tmp_path: Path) -> None:
    program = f"""
import sys, time
sys.modules["torch"] = None
from pathlib import Path
from workers.gpu_node import GpuNode
node = GpuNode(node="gpu-1", state_dir=Path({str(tmp_path)!r}), services=({str(tmp_path / "s.yaml")!r},), devices=1)
with node.lease(service="fake", action="a1", units=1, deadline=time.monotonic() + 30) as lease:
    print(lease.call("score", {{"pairs": [["a", "a"]]}}))
node.stop()
"""
    (tmp_path / "s.yaml").write_text("services: [{name: fake, kind: fake}]")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert (done.stdout, done.stderr) == ("[1.0]\n", "")
