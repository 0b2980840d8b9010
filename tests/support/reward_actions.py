"""Own reward code, as users write it."""

from __future__ import annotations

from tangram_tasks import ServiceHandle
from tangram_tasks.shared import shared_action


@shared_action(name="t.best", service="fake", gpu=(1, 2), takes_service=True, timeout=30)
def best(service: ServiceHandle, question: str, answers: list[str]) -> str:
    """Return the answer that the service likes most."""
    scores: list[float] = service.call("score", {"pairs": [[question, answer] for answer in answers]})
    return answers[scores.index(max(scores))]
