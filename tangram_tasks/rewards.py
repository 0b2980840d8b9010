"""Ready-made GPU actions: rewards from models that are paged in for the call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tangram_tasks.context import current_action
from tangram_tasks.errors import ConfigurationError
from tangram_tasks.shared import shared_action


def call_service(method: str, payload: dict[str, Any]) -> Any:
    """Call the reward model that the running action was granted. Raises ConfigurationError outside of one."""
    service = current_action().service
    if service is None:
        raise ConfigurationError("this action asked for no service: declare it with gpu=1, service=NAME")
    return service.call(method, payload)


@shared_action(gpu=1, timeout=120, duration=0.5, service_argument="service")
def score(service: str, pairs: Sequence[tuple[str, str]]) -> list[float]:
    """Score pairs of texts with a reward model, for example the similarity of answer and reference.

    Args:
        service: name of the reward model.
        pairs: texts to compare.
    """
    result: list[float] = call_service("score", {"pairs": [list(pair) for pair in pairs]})
    return result


@shared_action(gpu=1, timeout=120, duration=1.0, service_argument="service")
def logprobs(service: str, pairs: Sequence[tuple[str, str]]) -> list[float]:
    """Return the mean log-probability that a teacher model gives each (prompt, answer)'s answer tokens.

    Args:
        service: name of the teacher model.
        pairs: prompt and answer.
    """
    result: list[float] = call_service("logprob", {"pairs": [list(pair) for pair in pairs]})
    return result
