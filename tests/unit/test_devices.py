"""What the inventory says with and without an NVIDIA driver; the driver is played by patched pynvml functions."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pynvml
import pytest

from tangram_tasks.errors import ConfigurationError
from workers.devices import emulate, probe


def _raise(code: int) -> None:
    raise pynvml.NVMLError(code)


@pytest.fixture
def shutdowns(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A driver with no devices yet; the list grows with every shutdown."""
    seen: list[str] = []
    monkeypatch.setattr(pynvml, "nvmlInit", lambda: None)
    monkeypatch.setattr(pynvml, "nvmlShutdown", lambda: seen.append("shutdown"))
    monkeypatch.setattr(pynvml, "nvmlDeviceGetCount", lambda: 0)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetHandleByIndex", lambda index: index)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetUUID", lambda handle: f"GPU-{handle}")
    monkeypatch.setattr(pynvml, "nvmlDeviceGetName", lambda handle: b"Model X")
    monkeypatch.setattr(pynvml, "nvmlDeviceGetMemoryInfo", lambda handle: SimpleNamespace(total=80, free=70))
    return seen


def test_without_a_driver_the_inventory_is_empty_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pynvml, "nvmlInit", lambda: _raise(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND))

    inventory = probe()

    assert inventory.devices == ()
    assert inventory.source == "none"
    assert inventory.reason.startswith("LibraryNotFound")


def test_without_the_package_the_inventory_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)

    assert probe().reason == "the package nvidia-ml-py is not installed"


def test_devices_are_known_by_uuid(shutdowns: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pynvml, "nvmlDeviceGetCount", lambda: 2)

    inventory = probe()

    assert inventory.source == "nvml"
    assert [device.id for device in inventory.devices] == ["GPU-0", "GPU-1"]
    assert inventory.devices[0].name == "Model X"
    assert (inventory.devices[0].total_bytes, inventory.devices[0].free_bytes) == (80, 70)
    assert not inventory.devices[0].emulated
    assert shutdowns == ["shutdown"]


def test_a_field_the_driver_does_not_know_is_none(shutdowns: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pynvml, "nvmlDeviceGetCount", lambda: 1)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetMemoryInfo", lambda handle: _raise(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND))
    monkeypatch.setattr(pynvml, "nvmlDeviceGetName", lambda handle: _raise(pynvml.NVML_ERROR_NOT_SUPPORTED))

    (device,) = probe().devices

    assert device.name == "unknown GPU"
    assert device.total_bytes is None


def test_a_lost_gpu_is_left_out_and_named(shutdowns: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def handle_of(index: int) -> int:
        if index == 1:
            _raise(pynvml.NVML_ERROR_GPU_IS_LOST)
        return index

    monkeypatch.setattr(pynvml, "nvmlDeviceGetCount", lambda: 3)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetHandleByIndex", handle_of)

    inventory = probe()

    assert [device.id for device in inventory.devices] == ["GPU-0", "GPU-2"]
    assert "GPU 1" in inventory.reason


def test_a_driver_that_dies_while_asked_is_shut_down(shutdowns: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pynvml, "nvmlDeviceGetCount", lambda: _raise(pynvml.NVML_ERROR_UNKNOWN))

    assert probe().source == "none"
    assert shutdowns == ["shutdown"]


def test_emulated_devices_have_the_budget_asked_for() -> None:
    inventory = emulate(2, budget_bytes=1000, link_gbps=4.0)

    assert inventory.source == "emulated"
    assert [device.id for device in inventory.devices] == ["emulated-0", "emulated-1"]
    assert all(device.emulated and device.total_bytes == 1000 for device in inventory.devices)
    assert inventory.devices[0].link_gbps == 4.0


@pytest.mark.parametrize(
    ("count", "budget", "link", "named"),
    [(0, None, None, "not 0"), (1, 0, None, "budget"), (1, None, 0.0, "link rate"), (1, None, float("nan"), "nan")],
)
def test_emulation_that_makes_no_sense_is_refused(
    count: int, budget: int | None, link: float | None, named: str
) -> None:
    with pytest.raises(ConfigurationError, match=named):
        emulate(count, budget_bytes=budget, link_gbps=link)
