"""Who gets which device of a GPU node."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from tangram_tasks.errors import ActionCancelled, ServiceUnavailable
from workers.device_claims import DeviceClaims

NOW = 100.0


def _nothing() -> None:
    """No reason to stop waiting."""


@contextmanager
def _claim(
    claims: DeviceClaims,
    action: str,
    units: int = 1,
    *,
    deadline: float = 1e9,
    ranks: tuple[int, ...] = (0, 0, 0),
    check: Callable[[], None] = _nothing,
) -> Iterator[tuple[int, ...]]:
    with claims.claim(action, units, deadline=deadline, rank=ranks.__getitem__, check=check) as chosen:
        yield chosen


def _claims(count: int) -> DeviceClaims:
    return DeviceClaims(count, clock=lambda: NOW)


def test_the_best_ranked_free_devices_are_taken() -> None:
    claims = _claims(3)

    with _claim(claims, "a", ranks=(2, 0, 1)) as first, _claim(claims, "b", 2, ranks=(2, 0, 1)) as others:
        assert first == (1,)
        assert others == (2, 0)


def test_a_device_is_free_again_after_an_error() -> None:
    claims = _claims(1)
    with pytest.raises(KeyError), _claim(claims, "a"):
        raise KeyError
    with _claim(claims, "b", deadline=NOW) as chosen:
        assert chosen == (0,)
    assert claims.wait_idle(NOW)


def test_waiting_ends_at_the_deadline_and_names_the_holders() -> None:
    claims = _claims(2)
    with (
        _claim(claims, "holder", 1),
        pytest.raises(ServiceUnavailable, match=r"action late got no 2 of 2 devices.*holder"),
        _claim(claims, "late", 2, deadline=NOW),
    ):
        pytest.fail("there is one device left")
    assert claims.wait_idle(NOW)


def test_a_waiting_action_can_be_told_to_stop() -> None:
    claims = _claims(1)
    cancelled = threading.Event()
    waiting = threading.Event()

    def check() -> None:
        waiting.set()
        if cancelled.is_set():
            raise ActionCancelled("action b was cancelled")

    def wait() -> None:
        with _claim(claims, "b", check=check):
            pytest.fail("the device is held")

    with ThreadPoolExecutor(1) as threads, _claim(claims, "a"):
        answer = threads.submit(wait)
        assert waiting.wait(10)
        cancelled.set()
        claims.recheck()
        with pytest.raises(ActionCancelled):
            answer.result(10)
        assert not claims.wait_idle(NOW)


def test_whether_a_device_is_idle() -> None:
    claims = _claims(2)
    with _claim(claims, "a", ranks=(0, 1)):
        assert [claims.idle(index) for index in range(2)] == [False, True]
    assert claims.idle(0)
