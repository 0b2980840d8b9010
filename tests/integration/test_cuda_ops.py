"""What CudaOps asks of the CUDA runtime, played by fakes: no GPU is needed."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from tests.support.torch_tests import NEEDS_TORCH  # isort: skip  # must run before torch is imported
import torch

from workers.device_ops import CudaOps

pytestmark = NEEDS_TORCH

ODD = 20_000_512  # no power of two


class Runtime:
    """Remembers what is pinned; refuses with `code`."""

    def __init__(self) -> None:
        self.pinned: dict[int, int] = {}
        self.flags: set[int] = set()
        self.code = 0

    def cudaHostRegister(self, address: int, nbytes: int, flags: int) -> int:  # noqa: N802  # the runtime's name
        if self.code == 0:
            self.pinned[address] = nbytes
            self.flags.add(flags)
        return self.code

    def cudaHostUnregister(self, address: int) -> int:  # noqa: N802  # the runtime's name
        return 0 if self.pinned.pop(address, None) else 713


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Runtime:
    fake = Runtime()
    monkeypatch.setattr(torch.cuda, "cudart", lambda: fake)
    monkeypatch.setattr(torch.cuda, "Stream", lambda device: None)
    return fake


def test_host_memory_is_pinned_at_its_exact_size_for_all_devices(runtime: Runtime) -> None:
    ops = CudaOps(torch.device("cuda", 0))
    buffer = ops.host_buffer(ODD)
    assert runtime.pinned == {buffer.data_ptr(): ODD}
    assert runtime.flags == {1}  # cudaHostRegisterPortable
    ops.free_host(buffer)
    assert runtime.pinned == {}


def test_memory_that_cannot_be_pinned_is_used_with_a_warning(
    runtime: Runtime, caplog: pytest.LogCaptureFixture
) -> None:
    runtime.code = 2
    with caplog.at_level(logging.WARNING):
        buffer = CudaOps(torch.device("cuda", 0)).host_buffer(ODD)
    assert buffer.numel() == ODD
    assert "could not be pinned (CUDA error 2)" in caplog.text


def test_a_copy_waits_for_kernels_before_it_and_is_waited_for(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []

    class Event:
        def synchronize(self) -> None:
            steps.append("synchronize")

    class Stream:
        def __init__(self, device: Any) -> None:
            pass

        def wait_stream(self, other: Any) -> None:
            steps.append("behind the default stream")

        def record_event(self) -> Event:
            steps.append("event")
            return Event()

    class Context:
        def __init__(self, stream: Any) -> None:
            pass

        def __enter__(self) -> None:
            steps.append("own stream")

        def __exit__(self, *_: object) -> None:
            pass

    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    monkeypatch.setattr(torch.cuda, "default_stream", lambda device: None)
    monkeypatch.setattr(torch.cuda, "stream", Context)
    target, source = torch.zeros(8, dtype=torch.uint8), torch.arange(8, dtype=torch.uint8)
    CudaOps(torch.device("cuda", 0)).copy(target, source)
    assert torch.equal(target, source)
    assert steps == ["behind the default stream", "own stream", "event", "synchronize"]
