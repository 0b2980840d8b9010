"""When a device is taken out of use, and when it comes back."""

from __future__ import annotations

from workers.device_health import PATIENCE, DeviceHealth
from workers.devices import Health


class Driver:
    """Says of each device what it is told to say."""

    def __init__(self) -> None:
        self.says: dict[str, Health] = {"GPU-a": "ok", "GPU-b": "ok"}
        self.retired: list[tuple[int, bool]] = []
        self.lost: list[int] = []
        self.health = DeviceHealth(
            ["GPU-a", "GPU-b"],
            lambda ids: dict(self.says),
            lambda *row: self.retired.append(row),
            self.lost.append,
        )


def test_a_lost_device_goes_at_once_and_comes_back_only_when_it_answers() -> None:
    driver = Driver()
    driver.says["GPU-b"] = "lost"
    driver.health.look()
    driver.says["GPU-b"] = "unknown"
    driver.health.look()
    assert driver.retired == [(1, True)]
    driver.says["GPU-b"] = "ok"
    driver.health.look()
    assert driver.retired == [(1, True), (1, False)]


def test_a_silent_device_goes_after_some_looks_in_a_row() -> None:
    driver = Driver()
    for _ in range(PATIENCE - 1):
        driver.says["GPU-a"] = "unknown"
        driver.health.look()
    driver.says["GPU-a"] = "ok"
    driver.health.look()
    driver.says["GPU-a"] = "unknown"
    for _ in range(PATIENCE - 1):
        driver.health.look()
    assert driver.retired == []
    driver.health.look()
    driver.health.look()
    assert driver.retired == [(0, True)]


def test_a_device_that_the_driver_forgot_is_silent() -> None:
    driver = Driver()
    del driver.says["GPU-a"]
    for _ in range(PATIENCE):
        driver.health.look()
    assert driver.retired == [(0, True)]


def test_who_uses_a_device_is_told_once_that_it_is_lost() -> None:
    driver = Driver()
    driver.says["GPU-a"] = "unknown"
    for _ in range(PATIENCE):
        driver.health.look()
    assert driver.lost == [], "it may answer again"
    driver.says["GPU-a"] = "lost"
    driver.health.look()
    driver.health.look()
    assert driver.lost == [0]
    assert driver.retired == [(0, True)]
