"""Who gets which device of a GPU node."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from tangram_tasks.errors import ActionCancelled, ServiceUnavailable
from workers.cells import CellTree
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
    ranks: tuple[int, ...] = (0, 0, 0, 0),
    check: Callable[[], None] = _nothing,
) -> Iterator[tuple[int, ...]]:
    with claims.claim(
        action, claims.cells.choices(units), deadline=deadline, rank=ranks.__getitem__, check=check
    ) as chosen:
        yield chosen


@contextmanager
def _on(
    claims: DeviceClaims,
    action: str,
    *choices: tuple[int, ...],
    deadline: float = 1e9,
    check: Callable[[], None] = _nothing,
) -> Iterator[tuple[int, ...]]:
    with claims.claim(action, choices, deadline=deadline, rank=lambda index: 0, check=check) as chosen:
        yield chosen


def _claims(count: int) -> DeviceClaims:
    return DeviceClaims(CellTree([range(count)]), clock=lambda: NOW)


def test_the_best_ranked_free_devices_are_taken() -> None:
    claims = _claims(4)
    ranks = (2, 0, 1, 2)

    with _claim(claims, "a", ranks=ranks) as first, _claim(claims, "b", 2, ranks=ranks) as others:
        assert first == (1,)
        assert others == (2, 3)


def test_several_devices_are_an_aligned_cell() -> None:
    claims = _claims(4)

    with _claim(claims, "a", ranks=(9, 0, 0, 9)) as first, _claim(claims, "b", ranks=(9, 9, 0, 9)) as second:
        assert (first, second) == ((1,), (2,))
        with (
            pytest.raises(ServiceUnavailable, match="action c got no 2 of 4 devices"),
            _claim(claims, "c", 2, deadline=NOW),
        ):
            pytest.fail("devices 0 and 3 are no cell")


def test_a_larger_cell_is_broken_last() -> None:
    claims = _claims(4)

    with _claim(claims, "a") as first, _claim(claims, "b") as second, _claim(claims, "c", 2) as third:
        assert (first, second, third) == ((0,), (1,), (2, 3))


def test_a_retired_device_is_given_to_nobody() -> None:
    claims = _claims(2)
    claims.retire(0, True)
    assert claims.usable == 1
    with (
        _claim(claims, "a") as first,
        pytest.raises(ServiceUnavailable, match="1 of them are out of use"),
        _claim(claims, "b", deadline=NOW),
    ):
        pytest.fail("the other one is retired")
    assert first == (1,)
    claims.retire(0, False)
    with _claim(claims, "c") as third:
        assert third == (0,)


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


def test_who_waits_for_one_device_holds_up_nobody_who_wants_another() -> None:
    claims = _claims(2)
    refused: list[str] = []

    def wait_for_the_first_device() -> None:
        with pytest.raises(ActionCancelled), _on(claims, "b", (0,), check=check):
            pytest.fail("the device is held")

    def check() -> None:
        waiting.set()
        if refused:
            raise ActionCancelled("action b was cancelled")

    waiting = threading.Event()
    with ThreadPoolExecutor(1) as threads, _on(claims, "a", (0,)):
        answer = threads.submit(wait_for_the_first_device)
        assert waiting.wait(10)
        try:
            with _on(claims, "c", (1,), deadline=NOW) as chosen:
                assert chosen == (1,)
            with _on(claims, "d", (0,), (1,), deadline=NOW) as chosen:
                assert chosen == (1,), "what b waits for is not taken from it"
        finally:
            refused.append("b")
            claims.recheck()
            answer.result(10)


def test_who_waits_for_several_devices_is_not_passed_by_smaller_ones() -> None:
    claims = _claims(2)
    waiting = threading.Event()

    def both() -> tuple[int, ...]:
        with _claim(claims, "b", 2, check=waiting.set) as chosen:
            return chosen

    with ThreadPoolExecutor(1) as threads:
        with _claim(claims, "a"):
            answer = threads.submit(both)
            assert waiting.wait(10)
            with pytest.raises(ServiceUnavailable), _claim(claims, "c", deadline=NOW):
                pytest.fail("b came first and needs both")
        assert answer.result(10) == (0, 1)


def test_a_retired_device_is_not_idle() -> None:
    claims = _claims(2)
    claims.retire(0, True)
    assert [claims.idle(index) for index in range(2)] == [False, True]
