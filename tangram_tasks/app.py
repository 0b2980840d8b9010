"""The Celery app of rollout code and workers: publishes actions to the admission queue."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from functools import cached_property
from typing import Any, overload

import redis
from celery import Celery, states
from kombu.exceptions import EncodeError, OperationalError
from kombu.utils.json import dumps
from redis.exceptions import RedisError

from tangram_tasks.action import ActionSpec, Sizes, declare
from tangram_tasks.celery_settings import celery_settings
from tangram_tasks.context import ActionRuntime
from tangram_tasks.control import ActionControl, stream_entry
from tangram_tasks.control_messages import ControlMessage
from tangram_tasks.declaration import split_options
from tangram_tasks.errors import BrokerUnavailable, ConfigurationError, InvalidAction
from tangram_tasks.journal import check_same, current_journal, digest, is_recorded, stable_id
from tangram_tasks.keys import Keys, result_key
from tangram_tasks.publisher import admission_options
from tangram_tasks.settings import Settings, broker_url, settings, without_password
from tangram_tasks.task import ActionTask, check_takes_service
from tangram_tasks.tracing import publishing
from tangram_tasks.trajectory import Trajectory
from tangram_tasks.wire import ActionHeader

#: Result keys live in the same Redis; this prefix makes Celery load our backend class.
_BACKEND = "tangram_tasks.backend:TangramBackend+"


class TangramApp(Celery):
    """A Celery app whose `action` tasks are scheduled by the resources they ask for.

    Args:
        main: name of the app.
        broker: Redis URL; by default `TANGRAM_BROKER_URL`, else the broker that `tangram up` started.
        job: name of the RL job these actions belong to; jobs that are named share by weight.
        weight: that job's share, 1 or more; one that was set by `tangram jobs set` counts more.
        config: settings; by default those of the environment.
        options: passed on to `celery.Celery`.

    Raises:
        BrokerUnavailable: no URL was given and no embedded broker runs.
        ConfigurationError: the weight is not 1 or more, or there is no job to have it.
    """

    control_cls: Any = ActionControl
    task_cls: Any = ActionTask

    def __init__(
        self,
        main: str = "tangram",
        *,
        broker: str | None = None,
        job: str = "",
        weight: int = 1,
        config: Settings | None = None,
        **options: Any,
    ) -> None:
        self.settings = config or settings()
        self.url = broker or broker_url(self.settings)
        if weight < 1 or (weight != 1 and not job):
            raise ConfigurationError(f"weight={weight} of job {job!r}: a named job has a weight of 1 or more")
        self.job = job
        self.weight = weight
        self.keys = Keys(self.settings.prefix)
        #: Demands of actions that this process does not import, for `send_task` by name.
        self.remote_specs: dict[str, ActionSpec] = {}
        #: Set by a worker; None in rollout code.
        self.runtime: ActionRuntime | None = None
        super().__init__(main, broker=self.url, backend=_BACKEND + self.url, **options)
        self.conf.update(celery_settings(self.settings))

    @cached_property
    def redis(self) -> redis.Redis:
        """A client of the deployment's Redis; answers are bytes."""
        connect: Any = redis.Redis.from_url  # redis leaves it untyped
        client: redis.Redis = connect(self.url, socket_timeout=30, socket_connect_timeout=5, health_check_interval=25)
        return client

    @overload
    def action(self, function: Callable[..., Any], /) -> ActionTask: ...

    @overload
    def action(self, /, **options: Any) -> Callable[[Callable[..., Any]], ActionTask]: ...

    def action(self, function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
        """Declare a function as an action; use as `@app.action(cpu=2)`.

        Resources and limits are those of `tangram_tasks.action.declare`; every other option is Celery's. A first
        parameter called `sandbox` receives the trajectory's Sandbox on the worker; callers leave it out. With
        `sandbox="stateless", image=...` it receives a clean one of its own, and needs no trajectory; its memory
        is what the action asks for.

        Raises:
            InvalidAction: the declaration is wrong.
        """

        def decorate(run: Callable[..., Any]) -> ActionTask:
            celery_options, spec = split_options(run, options)
            declare_task: Any = self.task
            task: ActionTask = declare_task(**celery_options, spec=spec, typing=False)(run)
            return task

        return decorate if function is None else decorate(function)

    def service_action(
        self, *, service: str, gpu: Sizes = 1, **options: Any
    ) -> Callable[[Callable[..., Any]], ActionTask]:
        """Declare own reward code that calls a service; use as `@app.service_action(service="judge", gpu=(1, 2))`.

        The function's first parameter receives the service, paged in, as a `tangram_tasks.context.ServiceHandle`;
        callers leave it out. With several devices a call's items are spread over them.

        Args:
            service: name of the service, as it was declared on the GPU nodes.
            gpu: devices, or the allowed numbers of them.
            options: as for `action`.

        Raises:
            InvalidAction: the declaration is wrong, or the function takes no parameter.
        """

        def decorate(run: Callable[..., Any]) -> ActionTask:
            check_takes_service(run, bound=bool(options.get("bind")))
            declare_action = self.action(service=service, gpu=gpu, takes_service=True, **options)
            task: ActionTask = declare_action(run)
            return task

        return decorate

    def api_action(
        self, *, provider: str, tokens: int = 0, calls: int = 1, **options: Any
    ) -> Callable[[Callable[..., Any]], ActionTask]:
        """Declare a function that calls an API: `@app.api_action(provider="judge", tokens=800)`.

        Its body calls `tangram_tasks.apis.current_api().request(...)`.

        Args:
            provider: name, as the API nodes know it.
            tokens: what one action is expected to use; `.using(tokens=...)` says it for one call.
            calls: requests that the body sends at most.
            options: those of `action`.

        Raises:
            InvalidAction: the declaration is wrong.
        """
        declared: Callable[[Callable[..., Any]], ActionTask] = self.action(
            api={provider: calls}, tokens=tokens, **options
        )
        return declared

    def remote_action(self, name: str, **resources: Any) -> None:
        """Say what an action asks for that only the workers import, so that `send_task(name)` is scheduled."""
        self.remote_specs[name] = declare(**resources)

    def trajectory(self, **options: Any) -> Trajectory:
        """Open a trajectory: `with app.trajectory(image=..., memory="1GiB") as t:` (also `async with`).

        See `tangram_tasks.trajectory.Trajectory` for the arguments.
        """
        return Trajectory(self, **options)

    def send_task(  # type: ignore[override]  # Celery's own options pass through unchanged
        self, name: str, args: Any = None, kwargs: Any = None, **options: Any
    ) -> Any:
        """Send a task; an action goes to the admission queue with its demand in the header.

        This is the one place every publish passes: delay, signatures, groups, chords, retries, sends by name.

        Raises:
            InvalidAction: the arguments do not match the function, or JSON cannot carry them.
        """
        task = options.get("task_type") or self.tasks.get(name)
        spec = task.spec_for(args, kwargs) if isinstance(task, ActionTask) else self.remote_specs.get(name)
        if spec is None:
            return super().send_task(name, args, kwargs, **options)
        _check_size(name, args, kwargs, self.settings.max_message)
        weight = self.weight if self.job else None
        header = ActionHeader(spec=spec, job=self.job, weight=weight, published_at=time.time())
        key = _journal_key(name, options)
        if key is not None:
            action, call = stable_id(self.job, "action", key), digest(name, args, kwargs)
            if self._recalls(action, key, call):
                return self.AsyncResult(action)
            header = header.model_copy(update={"key": key, "call": call})
            options["task_id"] = action
        publish = admission_options(name, header, options)
        try:
            with publishing(name, publish["headers"]):
                return super().send_task(name, args, kwargs, **publish)
        except EncodeError as error:
            raise InvalidAction(f"{name}: its arguments cannot be sent as JSON: {error}") from error
        except (OperationalError, RedisError) as error:
            raise self.unavailable(error) from error

    def _recalls(self, action: str, key: str, call: str) -> bool:
        """Whether the outcome of a call with this key is recorded. Raises InvalidAction, BrokerUnavailable."""
        try:
            payload: Any = self.redis.get(result_key(action))
            if payload is None:
                return False
            meta = json.loads(payload)
            check_same(meta, key, call)
            if is_recorded(meta):
                return True
            if meta["status"] in states.READY_STATES:
                self.redis.delete(result_key(action))  # a fault of the machinery: it was told once, now try again
        except (RedisError, OSError) as error:
            raise self.unavailable(error) from error
        return False

    def opens_first(self, trajectory: str) -> bool:
        """Whether nobody has opened this trajectory yet; known as long as the journal. Raises BrokerUnavailable."""
        key = self.keys.journal(trajectory)
        try:
            return bool(self.redis.set(key, self.job, nx=True, ex=self.settings.journal_expires))
        except (RedisError, OSError) as error:
            raise self.unavailable(error) from error

    def send_control(self, *messages: ControlMessage) -> None:
        """Tell the scheduler something. Raises BrokerUnavailable."""
        pipeline = self.redis.pipeline(transaction=False)
        for message in messages:
            pipeline.xadd(self.keys.control, stream_entry(message))
        try:
            pipeline.execute()
        except (RedisError, OSError) as error:
            raise self.unavailable(error) from error

    def unavailable(self, error: Exception) -> BrokerUnavailable:
        """Return the error that says that the broker does not answer, or is full, without its password."""
        if "maxmemory" in str(error):  # redis-py has a class for it, but not in a pipeline
            return BrokerUnavailable(
                f"the broker {without_password(self.url)} is full and takes nothing new: try again when results have "
                "expired, or raise its maxmemory"
            )
        return BrokerUnavailable(f"the broker {without_password(self.url)} does not answer: {error}")


def _journal_key(name: str, options: dict[str, Any]) -> str | None:
    """Take the key of a call out of its options; retries and parts of a canvas have ids of their own, and no key.

    Raises InvalidAction: a part of a canvas was given a key.
    """
    given, journal = options.pop("action_key", None), current_journal.get()
    if options.get("task_id"):
        if given is not None:
            raise InvalidAction(f"{name}: an action_key is for a single call, not for a part of a chain or chord")
        return None
    return given if journal is None else journal.key(given)


def _check_size(name: str, args: Any, kwargs: Any, limit: int) -> None:
    try:
        size = len(dumps((args or (), kwargs or {})))
    except (TypeError, ValueError):
        return  # Celery says why
    if size > limit:
        raise InvalidAction(
            f"{name}: its arguments have {size} bytes, more than {limit} (TANGRAM_MAX_MESSAGE): "
            "write large data into the sandbox, or pass where it is"
        )
