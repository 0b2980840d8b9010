"""Asking several nodes at once: none waits for the others' answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import pytest

from compose import service_control
from compose.service_control import ask
from tangram_tasks.keys import Keys
from tangram_tasks.orders import ServiceAnswer, ServiceOrder

if TYPE_CHECKING:
    import redis

KEYS = Keys("test")


class Broker:
    """The nodes answer when somebody has waited for so many seconds, in virtual time; an answer is kept for 60 s.

    Args:
        after: seconds by node.
    """

    def __init__(self, after: dict[str, float]) -> None:
        self.now = 0.0
        self._after = {KEYS.orders(node): (node, seconds) for node, seconds in after.items()}
        self._answers: dict[str, tuple[float, str]] = {}

    def monotonic(self) -> float:
        return self.now

    def rpush(self, key: str, payload: str) -> None:
        node, seconds = self._after[key]
        answer = ServiceAnswer(node=node, ok=True).model_dump_json()
        self._answers[KEYS.answer(ServiceOrder.model_validate_json(payload).reply)] = (seconds, answer)

    def blpop(self, keys: Sequence[str], timeout: float) -> tuple[bytes, str] | None:
        assert timeout > 0, "0 waits for ever"
        until = self.now + timeout
        coming = [
            (at, key, text) for key in keys for at, text in [self._answers[key]] if at <= until and at + 60 >= self.now
        ]
        at, key, text = min(coming, default=(until, "", ""))
        self.now = max(self.now, at)
        return (key.encode(), text) if key else None


def _ask(broker: Broker, monkeypatch: pytest.MonkeyPatch, nodes: Sequence[str]) -> dict[str, bool]:
    monkeypatch.setattr(service_control, "time", broker)
    client = cast("redis.Redis", broker)
    return {answer.node: answer.ok for answer in ask(client, KEYS, nodes, verb="load", service="judge", timeout=90)}


def test_an_early_answer_is_not_lost_while_a_slow_node_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker({"slow": 80.0, "quick": 1.0})
    assert _ask(broker, monkeypatch, ["slow", "quick"]) == {"slow": True, "quick": True}
    assert broker.now == 80.0


def test_silent_nodes_are_waited_for_together(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker({"dead": 1e9, "also-dead": 1e9, "quick": 1.0})
    assert _ask(broker, monkeypatch, ["dead", "also-dead", "quick"]) == {
        "quick": True,
        "dead": False,
        "also-dead": False,
    }
    assert broker.now == 95.0
