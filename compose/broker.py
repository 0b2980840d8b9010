"""The embedded broker: its configuration, its start under a supervisor, and the check of any broker."""

from __future__ import annotations

import contextlib
import secrets
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from compose.acl import OPERATOR, ROLES, Role, user_lines
from compose.broker_binary import find_broker
from compose.process import ChildSpec
from compose.state_dir import write_private
from compose.supervisor import Supervisor
from tangram_tasks.errors import BrokerUnavailable, ConfigurationError
from tangram_tasks.settings import without_password

_START_LIMIT = 15.0  # seconds until the server must answer; it takes 0.1 s on an idle machine


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    """How the embedded broker runs.

    Args:
        folder: its data and its configuration file.
        port: TCP port on 127.0.0.1.
        password: what clients must give.
        persistent: keep an append-only file, flushed every second; otherwise nothing outlives it.
        users: passwords by role, see `compose.acl`; with them `password` is that of the operator. Empty: one user
            for all.
        prefix: in front of every key of ours, for the users' rights.
    """

    folder: Path
    port: int
    password: str
    persistent: bool = True
    users: Mapping[Role, str] = field(default_factory=dict)
    prefix: str = "tangram:"

    @property
    def url(self) -> str:
        """The URL of who may do everything, with the password; redis-cli wants the user to be named."""
        return f"redis://{OPERATOR if self.users else 'default'}:{self.password}@127.0.0.1:{self.port}/0"

    def url_of(self, role: Role) -> str:
        """The URL for a role: with its own user and password, if there are users."""
        return f"redis://{role}:{self.users[role]}@127.0.0.1:{self.port}/0" if self.users else self.url

    def text(self) -> str:
        """Return the server's configuration file. The password stands here and never on a command line."""
        return "\n".join(
            [
                "bind 127.0.0.1",
                f"port {self.port}",
                *(user_lines(self.password, self.users, self.prefix) or [f"requirepass {self.password}"]),
                f"dir {_quoted(self.folder)}",
                f"appendonly {'yes' if self.persistent else 'no'}",
                "appendfsync everysec",
                'save ""',
                "maxmemory-policy noeviction",  # a full broker must refuse, never forget
                "daemonize no",
                'logfile ""',
                "",
            ]
        )


def broker_config(
    folder: Path, *, port: int | None = None, persistent: bool = True, secure: bool = False, prefix: str = "tangram:"
) -> BrokerConfig:
    """Return a configuration with a new password.

    Args:
        folder: where its data goes; must exist.
        port: the TCP port, or None for a free one.
        persistent: see BrokerConfig.
        secure: with a user for each role.
        prefix: see BrokerConfig.

    Raises:
        ConfigurationError: the asked port is taken.
    """
    users: dict[Role, str] = {role: secrets.token_urlsafe(24) for role in ROLES} if secure else {}
    return BrokerConfig(folder, _usable_port(port), secrets.token_urlsafe(24), persistent, users, prefix)


def start_broker(supervisor: Supervisor, config: BrokerConfig, *, name: str = "broker") -> None:
    """Start the server as a supervised child and wait until it answers.

    Raises:
        ConfigurationError: no server binary was found.
        BrokerUnavailable: it does not answer in time; the message has the end of its log.
    """
    file = config.folder / "broker.conf"
    write_private(file, config.text())
    supervisor.start(ChildSpec(name, (str(find_broker()), str(file))))
    deadline = time.monotonic() + _START_LIMIT
    while True:
        try:
            return check_broker(config.url, timeout=1.0)
        except BrokerUnavailable as error:
            if time.monotonic() > deadline or supervisor.status()[name].restarts > 1:
                raise BrokerUnavailable(f"{error}; its log ends:\n{supervisor.tail(name)}") from None
            time.sleep(0.02)


@contextlib.contextmanager
def throwaway_broker(folder: Path) -> Iterator[str]:
    """Run a broker without persistence on a free port for the length of the block, for tests and demos.

    Args:
        folder: an empty folder of the caller's.

    Yields:
        Its URL.
    """
    supervisor = Supervisor(folder)
    try:
        config = broker_config(folder, persistent=False)
        start_broker(supervisor, config)
        yield config.url
    finally:
        supervisor.close()


def check_broker(url: str, timeout: float = 5.0) -> None:
    """Make sure that a broker answers.

    Args:
        url: redis://, rediss:// or unix:// URL.
        timeout: seconds until it must have answered, name resolution included.

    Raises:
        ConfigurationError: it is no such URL.
        BrokerUnavailable: it does not answer, or refuses us; the message names the URL without its password.
    """
    answer: list[Exception | None] = []
    thread = threading.Thread(target=lambda: answer.append(_ping(url, timeout)), daemon=True)
    thread.start()
    thread.join(timeout)  # resolving a name obeys no socket timeout, hence the thread
    if not answer:
        raise BrokerUnavailable(f"the broker {without_password(url)} did not answer within {timeout:g} s")
    if answer[0] is not None:
        raise answer[0]


def _ping(url: str, timeout: float) -> Exception | None:
    import redis
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    shown = without_password(url)
    try:
        client = redis.Redis.from_url(
            url, socket_connect_timeout=timeout, socket_timeout=timeout, retry=Retry(NoBackoff(), 0)
        )
    except ValueError as error:
        return ConfigurationError(f"{shown!r} is not a broker URL: {error}")
    with contextlib.closing(client):
        try:
            client.ping()
        except redis.RedisError as error:
            return BrokerUnavailable(f"the broker {shown} does not answer: {error}")
    return None


def _usable_port(port: int | None) -> int:
    with socket.socket() as probe:
        if port is not None:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port or 0))
        except OSError as error:
            raise ConfigurationError(
                f"port {port} on 127.0.0.1 is not to be had ({error.strerror}): ask for another one, or for none"
            ) from None
        return int(probe.getsockname()[1])


def _quoted(path: Path) -> str:
    escaped = str(path).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
