"""Which GPUs this machine has, by NVML, or which ones to emulate. The only file that touches pynvml."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tangram_tasks.errors import ConfigurationError

Health = Literal["ok", "unknown", "lost"]


@dataclass(frozen=True, slots=True)
class Device:
    """One GPU, real or emulated.

    Args:
        id: NVML's UUID, or "emulated-N"; never an index, which CUDA_VISIBLE_DEVICES renumbers.
        name: product name.
        total_bytes: its memory; None if the driver does not say.
        free_bytes: of that free when it was looked at; None if unknown.
        emulated: computed by the CPU, in ordinary memory.
        link: names what it shares a fast link with others by; devices with the same name are neighbours.
        link_gbps: of an emulated device, the pace of copies to it in 10^9 bytes per second; None copies at full speed.
    """

    id: str
    name: str
    total_bytes: int | None = None
    free_bytes: int | None = None
    emulated: bool = False
    link_gbps: float | None = None
    link: str = ""


@dataclass(frozen=True, slots=True)
class Inventory:
    """The devices of a node.

    Args:
        devices: may be empty.
        source: who listed them.
        reason: why the list is empty or incomplete, for messages.
    """

    devices: tuple[Device, ...]
    source: Literal["nvml", "emulated", "none"]
    reason: str = ""


def groups_of(devices: Sequence[Device]) -> tuple[tuple[int, ...], ...]:
    """Return the devices' places by their fast links."""
    links = [device.link for device in devices]
    return tuple(tuple(at for at, link in enumerate(links) if link == one) for one in dict.fromkeys(links))


def emulate(count: int, *, budget_bytes: int | None = None, link_gbps: float | None = None) -> Inventory:
    """Return `count` emulated devices of `budget_bytes` memory each. Raises ConfigurationError."""
    if count < 1:
        raise ConfigurationError(f"a GPU node needs 1 emulated device or more, not {count}")
    if budget_bytes is not None and budget_bytes < 1:
        raise ConfigurationError(f"the memory budget of an emulated device must be above 0, not {budget_bytes} bytes")
    if link_gbps is not None and not link_gbps > 0:
        raise ConfigurationError(f"the link rate of an emulated device must be above 0 GB/s, not {link_gbps}")
    devices = tuple(
        Device(f"emulated-{index}", "emulated on the CPU", budget_bytes, budget_bytes, True, link_gbps)
        for index in range(count)
    )
    return Inventory(devices, "emulated")


def probe() -> Inventory:
    """Ask NVML for the GPUs of this machine. Never raises: without a driver the inventory is empty and says why."""
    try:
        import pynvml
    except ImportError:
        return Inventory((), "none", "the package nvidia-ml-py is not installed")
    try:
        pynvml.nvmlInit()
    except (pynvml.NVMLError, OSError) as error:
        return Inventory((), "none", _name(error))
    try:
        return _listed(pynvml)
    except (pynvml.NVMLError, OSError) as error:
        return Inventory((), "none", _name(error))
    finally:
        _ask(pynvml, pynvml.nvmlShutdown)


def poll(ids: Collection[str]) -> dict[str, Health]:
    """Ask NVML how these devices are. Never raises; one that is not there, or does not answer, is "unknown"."""
    try:
        import pynvml
    except ImportError:
        return dict.fromkeys(ids, "unknown")
    try:
        pynvml.nvmlInit()
    except (pynvml.NVMLError, OSError):
        return dict.fromkeys(ids, "unknown")
    try:
        return {device: _health(pynvml, device) for device in ids}
    finally:
        _ask(pynvml, pynvml.nvmlShutdown)


def _health(nvml: Any, device: str) -> Health:
    try:
        nvml.nvmlDeviceGetMemoryInfo(nvml.nvmlDeviceGetHandleByUUID(device))
    except nvml.NVMLError as error:
        return "lost" if error.value == nvml.NVML_ERROR_GPU_IS_LOST else "unknown"
    return "ok"


def _listed(nvml: Any) -> Inventory:
    devices: list[Device] = []
    lost: list[str] = []
    links: list[tuple[Any, str]] = []
    for index in range(nvml.nvmlDeviceGetCount()):
        handle = _ask(nvml, nvml.nvmlDeviceGetHandleByIndex, index)
        parts = [] if handle is None else _instances(nvml, handle)
        link = "" if handle is None or parts else _link(nvml, handle, links)
        found = [_device(nvml, one, link) for one in parts or [handle]]
        devices += [device for device in found if device is not None]
        if None in found:
            lost.append(str(index))  # fallen off the bus, or not ours to use
        links.append((handle, link))
    reason = f"the driver does not answer for GPU {', '.join(lost)}" if lost else ""
    return Inventory(tuple(devices), "nvml", reason or ("" if devices else "the driver lists no GPU"))


def _device(nvml: Any, handle: Any, link: str) -> Device | None:
    identity = None if handle is None else _ask(nvml, nvml.nvmlDeviceGetUUID, handle)
    if identity is None:
        return None
    name = _ask(nvml, nvml.nvmlDeviceGetName, handle)
    memory = _ask(nvml, nvml.nvmlDeviceGetMemoryInfo, handle)
    total, free = (None, None) if memory is None else (int(memory.total), int(memory.free))
    return Device(_text(identity), _text(name or "unknown GPU"), total, free, link=link or _text(identity))


def _instances(nvml: Any, handle: Any) -> list[Any]:
    """Return the MIG instances of a GPU in MIG mode; each counts as a device of its own."""
    mode = _ask(nvml, nvml.nvmlDeviceGetMigMode, handle)
    if mode is None or mode[0] != nvml.NVML_DEVICE_MIG_ENABLE:
        return []
    count = _ask(nvml, nvml.nvmlDeviceGetMaxMigDeviceCount, handle) or 0
    found = (_ask(nvml, nvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, index) for index in range(count))
    return [instance for instance in found if instance is not None]


def _link(nvml: Any, handle: Any, earlier: Sequence[tuple[Any, str]]) -> str:
    """Name the fast link of a GPU: that of a GPU which it reaches by NVLink, else its NUMA node; "" is alone."""
    for other, link in earlier:
        if other is None:
            continue
        reached = _ask(nvml, nvml.nvmlDeviceGetP2PStatus, handle, other, nvml.NVML_P2P_CAPS_INDEX_NVLINK)
        if reached == nvml.NVML_P2P_STATUS_OK:
            return link
    numa = _ask(nvml, nvml.nvmlDeviceGetNumaNodeId, handle)
    return _text(_ask(nvml, nvml.nvmlDeviceGetUUID, handle) or "") if numa is None else f"numa-{numa}"


def _ask(nvml: Any, question: Callable[..., Any], *arguments: Any) -> Any:
    """Return NVML's answer, or None: any single field may be missing (old driver, MIG, container, lost GPU)."""
    try:
        return question(*arguments)
    except nvml.NVMLError:
        return None


def _name(error: Exception) -> str:
    return type(error).__name__.removeprefix("NVMLError_") + f": {error}"


def _text(value: str | bytes) -> str:
    """Old bindings answer in bytes."""
    return value.decode(errors="replace") if isinstance(value, bytes) else value
