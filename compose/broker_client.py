"""A connection to the deployment that the settings name, for commands."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from compose.broker import check_broker
from tangram_tasks.control import stream_entry
from tangram_tasks.keys import Keys
from tangram_tasks.settings import broker_url, settings

if TYPE_CHECKING:
    from redis import Redis

    from tangram_tasks.control_messages import ControlMessage


@contextmanager
def deployment() -> Iterator[tuple[Redis, Keys]]:
    """Return a client and the names in Redis. Raises BrokerUnavailable."""
    import redis

    config = settings()
    url = broker_url(config)
    check_broker(url)
    with redis.Redis.from_url(url, socket_timeout=10) as client:
        yield client, Keys(config.prefix)


def tell(client: Redis, keys: Keys, message: ControlMessage) -> None:
    """Tell the scheduler something."""
    client.xadd(keys.control, stream_entry(message))
