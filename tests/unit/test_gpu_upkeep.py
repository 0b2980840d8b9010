"""The thread that looks after a GPU node."""

from __future__ import annotations

import threading

import pytest

from workers import gpu_upkeep
from workers.gpu_upkeep import GpuUpkeep


def test_a_look_that_hangs_does_not_keep_a_node_from_stopping(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_upkeep, "PERIOD", 0.0)
    monkeypatch.setattr(gpu_upkeep, "_LAST_LOOK", 0.01)
    entered, wakes = threading.Event(), threading.Event()

    def reap() -> list[str]:
        entered.set()
        wakes.wait(30)
        return []

    upkeep = GpuUpkeep("gpu-1", reap, None)
    try:
        assert entered.wait(10)
        upkeep.stop()
        assert not wakes.is_set()
    finally:
        wakes.set()
        upkeep.stop()


def test_an_error_of_one_look_does_not_end_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_upkeep, "PERIOD", 0.0)
    looks, enough = [0], threading.Event()

    def reap() -> list[str]:
        looks[0] += 1
        if looks[0] > 1:
            enough.set()
        raise RuntimeError("the books are wet")

    upkeep = GpuUpkeep("gpu-1", reap, None)
    try:
        assert enough.wait(10)
    finally:
        upkeep.stop()
