"""Puts a worker process together: the app, the node, Celery's worker with our steps in it."""

from __future__ import annotations

import importlib
import logging
from typing import Any
from uuid import uuid4

import redis
from celery import bootsteps
from celery.worker.consumer.tasks import Tasks
from kombu.transport.redis import Channel
from redis.backoff import ExponentialBackoff
from redis.retry import Retry

from tangram_tasks.app import TangramApp
from tangram_tasks.errors import ConfigurationError
from tangram_tasks.keys import node_queue
from tangram_tasks.settings import settings
from tangram_tasks.task import ActionTask
from workers.announce import Announcer
from workers.claims import Claims
from workers.node import Node
from workers.options import from_environment
from workers.recollection import Recollection
from workers.remote_control import keep_to
from workers.request import ActionRequest
from workers.runtime import Runtime
from workers.unread import Unread

logger = logging.getLogger(__name__)

#: Actions that every worker knows.
READY_MADE = ("tangram_tasks.tools", "tangram_tasks.rewards", "tangram_tasks.apis")


def load_app() -> TangramApp:
    """Return the app with all actions imported: the user's app if a module in TANGRAM_IMPORTS defines one.

    Raises:
        ConfigurationError: a module cannot be imported, or several apps were defined.
    """
    found: list[TangramApp] = []
    for name in (*READY_MADE, *settings().modules):
        try:
            module = importlib.import_module(name)
        except ImportError as error:
            raise ConfigurationError(f"TANGRAM_IMPORTS: cannot import {name}: {error}") from error
        found += [value for value in vars(module).values() if isinstance(value, TangramApp) and value not in found]
    if len(found) > 1:
        raise ConfigurationError(f"TANGRAM_IMPORTS defines {len(found)} apps; a worker serves one")
    app = found[0] if found else TangramApp("tangram")
    app.set_default()  # pool threads must find this app, not Celery's fallback
    app.finalize()
    return app


def install(app: TangramApp, node: Node) -> Announcer:
    """Make the app's actions run on this node."""
    generation = uuid4().hex[:12]
    client = _patient_client(app)
    claims = Claims(client, app.keys, generation)
    memory = Recollection(claims, node.name, generation)
    runtime = Runtime(node, claims, memory)
    app.runtime = runtime
    Unread(app, runtime).listen()
    channel: Any = Channel
    # Sending messages home is the ledger's business. kombu 5.7 dies of trying it on a lost connection.
    channel.do_restore = False
    task_class: Any = ActionTask
    task_class.Request = ActionRequest
    announcer = Announcer(client, app.keys, node, runtime, memory, generation, app.settings.heartbeat)
    steps: Any = app.steps
    steps["consumer"].add(_announcing(announcer))
    return announcer


def _patient_client(app: TangramApp) -> redis.Redis:
    """A node outlives a broker that restarts: its calls are tried again for about a quarter of a minute."""
    connect: Any = redis.Redis.from_url  # redis leaves it untyped
    client: redis.Redis = connect(
        app.url,
        socket_timeout=30,
        socket_connect_timeout=5,
        health_check_interval=25,
        retry=Retry(ExponentialBackoff(cap=2.0, base=0.1), 10),
    )
    return client


def _announcing(announcer: Announcer) -> type[bootsteps.StartStopStep]:
    """The node says that it is here once its consumer takes tasks, and that it leaves before it stops taking them."""

    class Announcing(bootsteps.StartStopStep):
        requires = (Tasks,)

        def start(self, parent: Any) -> None:
            announcer.start()

        def shutdown(self, parent: Any) -> None:
            announcer.stop()

    return Announcing


def serve(kind: str) -> None:
    """Run a node of this kind until TERM or INT. Raises TangramError when it cannot start."""
    options = from_environment(kind)
    app = load_app()
    node = options.build(app.settings)
    announcer = install(app, node)
    queue = node_queue(kind, node.name)
    keep_to((queue, app.conf.task_default_queue))
    try:
        announcer.check_name()
        app.worker_main(
            [
                "worker",
                *("--queues", queue, "--hostname", f"{node.name}@%h"),
                *(
                    "--pool",
                    "threads",
                    "--concurrency",
                    str(options.concurrency or node.slots),
                    "--loglevel",
                    "WARNING",
                ),
                *("--without-mingle", "--without-gossip"),
            ]
        )
    finally:
        announcer.stop()
        node.stop()
