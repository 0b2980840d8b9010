"""Actions of the tests that ask toy services."""

from __future__ import annotations

from collections.abc import Sequence

from tangram_tasks.rewards import call_service
from tangram_tasks.shared import shared_action


@shared_action(name="t.ask", gpu=1, timeout=60, service_argument="service")
def ask(service: str, numbers: Sequence[float]) -> list[float]:
    """Ask a toy service for its scores."""
    answers: list[float] = call_service("score", {"numbers": list(numbers)})
    return answers
