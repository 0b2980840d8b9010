"""A whole deployment as child processes of this one: broker, scheduler and nodes."""

from __future__ import annotations

import json
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

import redis

from compose.acl import ROLES, Role
from compose.broker import broker_config, check_broker, start_broker
from compose.guardian import Guardian
from compose.process import ChildSpec
from compose.readiness import server_time, wait_until_ready
from compose.stack_config import NodeConfig, StackConfig
from compose.state_dir import StateDir, write_private
from compose.supervisor import ChildStatus, Supervisor
from tangram_tasks.errors import ConfigurationError
from tangram_tasks.keys import Keys
from tangram_tasks.wire import NodeKind

_BROKER, _SCHEDULER, _NODE = 0, 1, 2  # stages: started in this order, stopped in the opposite one


class Stack:
    """Everything that rollout code needs, running for the length of a `with` block.

    Children that end are restarted. At the end, also after kill -9 of this process, no process, container or
    temporary folder of it is left.

    Args:
        config: what it consists of.
        ready_limit: seconds until every node must have announced itself.
        grace: seconds that children of one stage have to stop in order.

    Raises:
        ConfigurationError: it cannot be started; the message ends with the log of what failed.
        BrokerUnavailable: the broker does not answer.
    """

    def __init__(self, config: StackConfig, *, ready_limit: float = 60.0, grace: float = 10.0) -> None:
        self.config = config
        self.broker_url = config.broker_url or ""  # for rollout code
        self.operator_url = self.broker_url
        self._child_urls: dict[Role, str] = {}
        self.state_dir = Path()
        self.owner = ""
        self._ready_limit = ready_limit
        self._grace = grace
        self._supervisor: Supervisor | None = None
        self._exit = ExitStack()

    def __enter__(self) -> Self:
        with self._exit:
            self._start()
            self._exit = self._exit.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def children(self) -> dict[str, ChildStatus]:
        """How every child is: "broker", "scheduler" and the nodes by name."""
        return self._running().status()

    def log(self, name: str) -> Path:
        """Return the log file of a child."""
        return self._running().log(name)

    def url_of(self, role: Role) -> str:
        """Return the broker's URL for a role: with a user of its own in a secure deployment."""
        return self._child_urls.get(role, self.broker_url)

    def restart(self, name: str) -> None:
        """Stop a child in order and start it again."""
        self._running().restart(name)

    def kill(self, name: str) -> None:
        """Kill a child as a crash would (SIGKILL); it is restarted after a short back-off."""
        self._running().kill(name)

    def stop(self) -> None:
        """Stop everything, in the opposite order of the start. Idempotent."""
        self._supervisor = None
        self._exit.close()

    def _running(self) -> Supervisor:
        if self._supervisor is None:
            raise ConfigurationError("the stack does not run: use it inside `with Stack(...)`")
        return self._supervisor

    def _start(self) -> None:
        state = self._take_state_dir()
        guardian = Guardian(state.logs / "guardian.log")
        self._exit.callback(guardian.close)
        guardian.remove_containers(self.owner)
        if self.config.state_dir is None:
            guardian.remove_folder(state.path)
        supervisor = self._supervisor = Supervisor(state.logs, guardian=guardian, grace=self._grace)
        self._exit.callback(supervisor.close)
        self._start_broker(state, supervisor)
        with redis.Redis.from_url(self.operator_url, socket_timeout=10) as client:
            since = server_time(client)
            self._start_children(supervisor)
            names = [node.name for _, node in self.config.nodes()]
            keys = Keys(self.config.prefix)
            wait_until_ready(client, keys, supervisor, names, since=since, limit=self._ready_limit)

    def _take_state_dir(self) -> StateDir:
        folder = self.config.state_dir or Path(tempfile.mkdtemp(prefix="tangram-"))
        state = StateDir(folder.absolute())
        state.lock()
        self._exit.callback(state.unlock)
        self.state_dir = state.path
        self.owner = state.owner()
        return state

    def _start_broker(self, state: StateDir, supervisor: Supervisor) -> None:
        if self.config.broker_url is not None:
            check_broker(self.config.broker_url)
            return
        asked = self.config
        config = broker_config(
            state.broker, port=asked.port, persistent=asked.persistent, secure=asked.secure, prefix=asked.prefix
        )
        start_broker(supervisor, config)
        self.broker_url, self.operator_url = config.url_of("rollout"), config.url
        self._child_urls = {role: config.url_of(role) for role in ROLES}
        for file, url in ((state.broker_url, self.broker_url), (state.operator_url, self.operator_url)):
            write_private(file, url)
            self._exit.callback(file.unlink, missing_ok=True)

    def _start_children(self, supervisor: Supervisor) -> None:
        environment = self._environment("scheduler")
        command = (sys.executable, "-m", "compose.scheduler_process")
        supervisor.start(ChildSpec("scheduler", command, environment, _SCHEDULER))
        environment = self._environment("worker")
        for kind, node in self.config.nodes():
            options = {**environment, "TANGRAM_NODE": node_options(node, self.owner)}
            supervisor.start(ChildSpec(node.name, node_command(kind), options, _NODE))

    def _environment(self, role: Role) -> dict[str, str]:
        return self.config.environment(self.url_of(role), self.state_dir)


def node_command(kind: NodeKind) -> tuple[str, ...]:
    """Return the command that runs a node of this kind."""
    return (sys.executable, "-m", "workers", kind)


def node_options(node: NodeConfig, owner: str) -> str:
    """Return the value of TANGRAM_NODE, by which a node learns its options."""
    return json.dumps({**node.model_dump(mode="json"), "owner": owner})
