"""A deployment in which every role has a broker user of its own, and what each of them must not do."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis
from celery import chain, chord, group
from celery.exceptions import TaskRevokedError

from compose.acl import ROLES, Role
from compose.embedded import Stack
from compose.stack_config import ApiNodeConfig, CpuNodeConfig, ProviderConfig, StackConfig
from monitoring.status import read_status
from tangram_tasks import TangramApp
from tangram_tasks.keys import ADMISSION_QUEUE, Keys
from tangram_tasks.tools import bash
from tests.support import actions

WAIT = 20


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    providers = {"noop": ProviderConfig(base_url="http://127.0.0.1:9", concurrency=4)}
    config = StackConfig(
        secure=True,
        api=(ApiNodeConfig(name="api-1", providers=providers),),
        cpu=(CpuNodeConfig(name="cpu-1", cores=1, backend="local"),),
        imports=("tests.support.actions",),
        unsafe_local=True,
        settings={"heartbeat": "0.3", "leader_lease": "1"},
    )
    with Stack(config) as stack:
        yield stack


async def test_everything_works_under_these_rights(stack: Stack, app: TangramApp) -> None:
    assert "rollout:" in stack.broker_url
    assert actions.add.delay(1, 1).get(timeout=WAIT) == 2
    assert await actions.add.adelay(2, 2) == 4
    assert group(actions.add.s(i, i) for i in range(4)).delay().get(timeout=WAIT) == [0, 2, 4, 6]
    assert chain(actions.add.s(1, 1), actions.add.s(10)).delay().get(timeout=WAIT) == 12
    assert chord([actions.add.s(i, 1) for i in range(3)], actions.total.s()).delay().get(timeout=WAIT) == 6
    assert actions.flaky_here.delay(1).get(timeout=WAIT) == 1
    assert actions.add.using(action_key="k").delay(3, 3).get(timeout=WAIT) == 6
    assert actions.add.using(action_key="k").delay(3, 3).get(timeout=WAIT) == 6
    late = actions.add.apply_async((1, 1), countdown=30)
    late.revoke()
    with pytest.raises(TaskRevokedError):
        late.get(timeout=WAIT)
    with app.trajectory(memory="64MiB", journal="rights"):
        assert bash.delay("echo hello").get(timeout=WAIT)["stdout"] == "hello\n"
    with redis.Redis.from_url(stack.url_of("monitor")) as client:
        status = read_status(client, app.keys, node_timeout=5.0)
    assert {node.record.node for node in status.nodes} == {"api-1", "cpu-1"}


KEYS = Keys()
EVERYBODY = [
    ("FLUSHALL",),
    ("CONFIG", "GET", "requirepass"),
    ("ACL", "LIST"),
    ("KEYS", "*"),
    ("SHUTDOWN", "NOSAVE"),
    ("REPLICAOF", "127.0.0.1", "1"),
    ("MONITOR",),
    ("CLIENT", "KILL", "TYPE", "normal"),
    ("SCRIPT", "FLUSH"),
    ("MODULE", "LIST"),
    ("SAVE",),
    ("SET", "elsewhere", "1"),
]
FORBIDDEN: dict[Role, list[tuple[str, ...]]] = {
    "rollout": [
        ("LPUSH", "cpu.cpu-1", "past admission"),
        ("LPUSH", "api.api-1", "past admission"),
        ("RPOP", ADMISSION_QUEUE),
        ("LRANGE", ADMISSION_QUEUE, "0", "-1"),
        ("HGETALL", KEYS.grants),
        ("HSET", KEYS.nodes, "forged", "{}"),
        ("XADD", KEYS.done, "*", "m", "forged"),
        ("XADD", KEYS.events, "*", "m", "forged"),
        ("XRANGE", KEYS.control, "-", "+"),
        ("RPUSH", KEYS.orders("cpu-1"), "forged"),
        ("INCR", KEYS.epoch),
        ("EVAL", "return 1", "0"),
    ],
    "worker": [("INCR", KEYS.epoch), ("SET", KEYS.leader, "me"), ("DEL", KEYS.trajectories), ("DEL", KEYS.dead)],
    "scheduler": [("SET", "other-deployment", "1"), ("SCRIPT", "KILL")],
    "monitor": [
        ("LPUSH", ADMISSION_QUEUE, "x"),
        ("HDEL", KEYS.nodes, "api-1"),
        ("XADD", KEYS.control, "*", "m", "x"),
        ("GET", "celery-task-meta-somebody"),
        ("EVAL", "return 1", "0"),
        ("PUBLISH", "celery-task-meta-x", "forged"),
    ],
}


@pytest.mark.parametrize(("role", "command"), [(role, row) for role in ROLES for row in EVERYBODY + FORBIDDEN[role]])
def test_what_a_role_must_not_do_is_refused(stack: Stack, role: Role, command: tuple[str, ...]) -> None:
    with redis.Redis.from_url(stack.url_of(role)) as client, pytest.raises(redis.exceptions.NoPermissionError):
        client.execute_command(*command)


def test_nobody_gets_in_without_a_name(stack: Stack) -> None:
    port = stack.broker_url.rpartition(":")[2].removesuffix("/0")
    with redis.Redis.from_url(f"redis://127.0.0.1:{port}/0") as client, pytest.raises(redis.AuthenticationError):
        client.ping()
