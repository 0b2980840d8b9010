"""The token bucket is exact."""

from __future__ import annotations

import pytest

from scheduler.core.bucket import TokenBucket


def test_it_starts_full_and_does_not_fill_beyond_its_burst() -> None:
    bucket = TokenBucket(2.0, 3, now=0)
    assert bucket.tokens(0) == 3
    assert bucket.tokens(1_000_000) == 3


def test_tokens_come_back_at_the_rate() -> None:
    bucket = TokenBucket(2.0, 3, now=0)
    bucket.take(0, 3)
    assert (bucket.tokens(499), bucket.tokens(500), bucket.tokens(999), bucket.tokens(1000)) == (0, 1, 1, 2)


def test_when_is_the_first_ms_at_which_they_are_there() -> None:
    bucket = TokenBucket(3.0, 2, now=0)
    bucket.take(0, 2)
    when = bucket.when(0, 1)
    assert when == 334
    assert (bucket.tokens(when - 1), bucket.tokens(when)) == (0, 1)
    assert bucket.when(when, 1) == when


@pytest.mark.parametrize(("per_second", "seconds"), [(0.1, 10), (0.7, 10), (33.3, 10), (0.000_28, 1_000_000)])
def test_many_small_steps_drift_by_nothing(per_second: float, seconds: int) -> None:
    whole = round(per_second * seconds)
    bucket = TokenBucket(per_second, whole, now=0)
    bucket.take(0, whole)
    step = max(1, seconds // 10)
    for at in range(0, seconds * 1000 - 1, step):
        assert bucket.tokens(at) < whole
    assert bucket.tokens(seconds * 1000 - 1) == whole - 1
    assert bucket.tokens(seconds * 1000) == whole


def test_more_than_there_is_cannot_be_taken() -> None:
    bucket = TokenBucket(1.0, 2, now=0)
    bucket.take(0, 1)
    with pytest.raises(ValueError, match=r"holds 1\.000 tokens at 0 ms, not 2"):
        bucket.take(0, 2)


def test_a_changed_rate_counts_from_now_on_and_keeps_what_is_there() -> None:
    bucket = TokenBucket(1.0, 10, now=0)
    bucket.take(0, 10)
    bucket.change(2000, 4.0, 5)
    assert (bucket.tokens(2000), bucket.tokens(2250), bucket.tokens(60_000)) == (2, 3, 5)
    bucket.change(60_000, 4.0, 2)
    assert bucket.tokens(60_000) == 2
