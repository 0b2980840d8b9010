"""Rubbish on the admission list: each message runs or is refused with a word to its caller; nothing stops or hangs."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from compose.embedded import Stack
from compose.stack_config import ApiNodeConfig, ProviderConfig, StackConfig
from scheduler.envelope import BadMessage, parse
from tangram_tasks import TangramApp
from tangram_tasks.keys import ADMISSION_QUEUE
from tangram_tasks.publisher import EnvelopeProducer
from tests.support import actions
from tests.support.mangling import ODD, mangle
from tests.waiting import wait_until

pytestmark = pytest.mark.chaos

#: Messages between two looks at the books; the list of dead ones keeps the last thousand.
ROUND = 500


@pytest.fixture
def app() -> Iterator[TangramApp]:
    providers = {"noop": ProviderConfig(base_url="http://127.0.0.1:9", concurrency=8)}
    config = StackConfig(api=(ApiNodeConfig(name="api-1", providers=providers),), imports=("tests.support.actions",))
    with Stack(config) as stack:
        app = TangramApp("client", broker=stack.broker_url)
        app.set_current()
        yield app
        app.close()


@dataclass
class Sent:
    """What was sent in one round and what must become of it."""

    accepted: set[str] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)
    dead: int = 0
    raws: list[bytes] = field(default_factory=list)

    def add(self, raw: bytes) -> None:
        self.raws.append(raw)
        try:
            envelope = parse(raw)
        except BadMessage as error:
            self.dead += 1
            if error.action is not None:
                self.refused.add(error.action)
        else:
            if not envelope.content["headers"].get("ignore_result"):
                self.accepted.add(envelope.action)


def _rubbish(rng: random.Random, count: int) -> Sent:
    producer, sent = EnvelopeProducer(), Sent()
    for number in range(count):
        actions.add.apply_async((number, 1), producer=producer)
        sent.add(mangle(producer.take(), rng))
    return sent


def test_every_mangled_message_is_accounted_for(
    app: TangramApp, rng: random.Random, request: pytest.FixtureRequest
) -> None:
    left = request.config.option.messages
    while left > 0:
        sent = _rubbish(rng, min(ROUND, left))
        app.redis.lpush(ADMISSION_QUEUE, *sent.raws)
        left -= len(sent.raws)
        assert actions.add.delay(left, 2).get(timeout=60) == left + 2, "a good message passes among them"
        assert_accounted_for(app, sent)


def assert_accounted_for(app: TangramApp, sent: Sent) -> None:
    books = (app.keys.pending, app.keys.grants, app.keys.running, app.keys.raws)
    wait_until(lambda: not any(app.redis.hlen(book) for book in books), "the books are empty", limit=60)
    assert app.redis.llen(app.keys.dead) == sent.dead
    app.redis.delete(app.keys.dead)
    states = {action: app.AsyncResult(action).state for action in sent.accepted | sent.refused}
    silent = {action: state for action, state in states.items() if state not in {"SUCCESS", "FAILURE", "REVOKED"}}
    assert not silent, "every message with an id has an outcome"
    wrong = {action for action in sent.refused - sent.accepted - set(map(str, ODD)) if states[action] != "FAILURE"}
    assert not wrong, "what was refused has failed"
