"""`tangram warm` over a real broker: what no node could carry out is refused at once, and nothing is sent."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis
from click.testing import CliRunner

from compose.cli import cli
from tangram_tasks.keys import Keys
from tangram_tasks.orders import KeepWarm
from tangram_tasks.settings import settings
from tangram_tasks.wire import NodeKind, NodeRecord

KEYS = Keys("warm-order:")


@pytest.fixture
def client(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[redis.Redis]:
    monkeypatch.setenv("TANGRAM_BROKER_URL", redis_url)
    monkeypatch.setenv("TANGRAM_PREFIX", KEYS.prefix)
    settings.cache_clear()
    kinds: tuple[tuple[str, NodeKind], ...] = (("c", "cpu"), ("g", "gpu"))
    with redis.Redis.from_url(redis_url) as client:
        for name, kind in kinds:
            record = NodeRecord(node=name, kind=kind, generation="1", capacity={})
            client.hset(KEYS.nodes, name, record.model_dump_json())
        yield client
        client.delete(KEYS.nodes, *map(KEYS.orders, "cg"))
    settings.cache_clear()


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("g", "i", "1"), "g is a gpu node: only cpu nodes have sandboxes"),
        (("c", "i", "1", "--memory", "8MiB"), "a sandbox of i needs 32 MiB, not 8"),
        (("c", "i", "1", "--memory", "much"), "much"),
        (("nobody", "i", "1"), "no node is called nobody: c, g"),
    ],
)
def test_what_cannot_be_done_is_refused(client: redis.Redis, arguments: tuple[str, ...], why: str) -> None:
    told = CliRunner().invoke(cli, ["warm", *arguments])
    assert told.exit_code == 1, told.output
    assert why in told.output
    assert not client.exists(*map(KEYS.orders, "cg"))


def test_the_rest_is_sent(client: redis.Redis) -> None:
    told = CliRunner().invoke(cli, ["warm", "c", "i", "2", "--memory", "64MiB"])
    assert told.exit_code == 0, told.output
    (order,) = client.lrange(KEYS.orders("c"), 0, -1)
    assert KeepWarm.model_validate_json(order) == KeepWarm(image="i", memory=64, count=2)
