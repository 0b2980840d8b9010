"""Simulated engines on one device, and the pager that moves them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.support.engine_simulators import SimulatedDevice
from tests.support.engines import NBYTES, Host, Simulator


@pytest.fixture
def device() -> SimulatedDevice:
    """Room for two engines that are awake, so that nobody is refused while they start."""
    return SimulatedDevice(3 * NBYTES)


@pytest.fixture
def host(device: SimulatedDevice, tmp_path: Path) -> Iterator[Host]:
    """A pager that shares out room for one engine."""
    made = Host(device, tmp_path, NBYTES + NBYTES // 2)
    yield made
    made.close()


@pytest.fixture
def run(device: SimulatedDevice) -> Iterator[Any]:
    """Yield a function that starts an engine."""
    with ExitStack() as engines:

        def start(kind: type[Simulator], **options: Any) -> Simulator:
            engine: Simulator = kind(device, NBYTES, **options)
            engines.enter_context(engine)
            return engine

        yield start
