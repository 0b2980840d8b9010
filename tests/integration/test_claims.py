"""START on a real broker: who may claim a grant."""

from __future__ import annotations

import redis

from tangram_tasks.grants import GrantRecord
from tangram_tasks.keys import Keys
from workers.claims import Claims


def granted_to(client: redis.Redis, generation: str) -> str:
    record = GrantRecord(seq=1, action="a", node="n", generation=generation, units=1, at=1)
    client.hset(Keys().grants, "1-1-x", record.model_dump_json())
    return "1-1-x"


def test_a_grant_is_claimed_once(clean_redis_url: str) -> None:
    with redis.Redis.from_url(clean_redis_url) as client:
        grant = granted_to(client, "g1")
        claims = Claims(client, Keys(), "g1")
        assert claims.start(grant)
        assert not claims.start(grant), "a second copy of its message"
        assert not claims.start("1-2-y"), "nobody granted that"


def test_a_grant_to_the_process_before_is_not_claimed(clean_redis_url: str) -> None:
    """The scheduler, which will learn of the new process, takes it back: as started here it would count as lost."""
    with redis.Redis.from_url(clean_redis_url) as client:
        grant = granted_to(client, "g1")
        assert not Claims(client, Keys(), "g2").start(grant)
        assert client.hlen(Keys().running) == 0
        assert Claims(client, Keys(), "g1").start(grant)
