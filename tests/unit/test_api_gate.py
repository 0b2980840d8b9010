"""When a provider may be called again."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from workers.api_gate import LONGEST, RETRY_AFTER, ApiGate, retry_after

NOW = datetime(2026, 12, 1, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        (None, RETRY_AFTER),
        ("2", 2.0),
        ("0", 0.0),
        ("Tue, 01 Dec 2026 12:00:30 GMT", 30.0),
        ("Tue, 01 Dec 2026 11:00:00 GMT", 0.0),
        ("soon", RETRY_AFTER),
        ("nan", RETRY_AFTER),
        ("999999999999", LONGEST),
    ],
)
def test_retry_after_is_a_number_or_a_date(text: str | None, seconds: float) -> None:
    assert retry_after(text, NOW) == seconds


def test_a_gate_closes_one_key_or_all_and_never_opens_early() -> None:
    now = [0.0]
    gate = ApiGate(lambda: now[0])
    gate.close(5.0, 1)
    gate.close(2.0, 1)
    assert (gate.closed_for(0), gate.closed_for(1)) == (0.0, 5.0)
    gate.close(7.0, None)
    now[0] = 6.0
    assert (gate.closed_for(0), gate.closed_for(1)) == (1.0, 1.0)
