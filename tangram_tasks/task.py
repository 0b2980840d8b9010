"""The Celery task class of actions: what callers use, and what runs on the worker."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from celery import Task
from kombu.utils.json import dumps

from tangram_tasks.action import ActionSpec
from tangram_tasks.context import ActionContext, _current
from tangram_tasks.errors import ConfigurationError, InvalidAction, ResultTooLarge
from tangram_tasks.handle import ActionHandle
from tangram_tasks.hub import hub_of
from tangram_tasks.resources import API_PREFIX
from tangram_tasks.wire import GRANT_HEADER

if TYPE_CHECKING:
    from celery.result import AsyncResult

_SANDBOX = "sandbox"


def sandbox_parameter(run: Callable[..., Any], *, bound: bool = False) -> bool:
    """Whether the function's first parameter (after self) is `sandbox`.

    Raises:
        InvalidAction: it has a `sandbox` parameter in another place.
    """
    names = list(inspect.signature(run).parameters)[1 if bound else 0 :]
    if _SANDBOX in names[1:]:
        raise InvalidAction("`sandbox` must be the first parameter")
    return names[:1] == [_SANDBOX]


def check_takes_service(run: Callable[..., Any], *, bound: bool = False) -> None:
    """Raise InvalidAction if the function has no parameter (after self) for the service, or one for a sandbox."""
    name = getattr(run, "__name__", str(run))
    if sandbox_parameter(run, bound=bound):
        raise InvalidAction(f"action {name}: GPU nodes have no sandboxes; its first parameter receives the service")
    if len(inspect.signature(run).parameters) <= bound:
        raise InvalidAction(f"action {name}: it needs a first parameter, which receives the service")


class ActionTask(Task[Any, Any]):
    """A task with a demand. `spec` is None for a plain Celery task, which is published as ever."""

    abstract = True
    spec: ActionSpec | None = None
    #: Name of the argument that says which provider (or service) one call uses, if that is not declared.
    provider_argument: str | None = None
    service_argument: str | None = None
    #: The function's first parameter receives the service that the action was granted; callers leave it out.
    takes_service: bool = False
    #: Estimates the tokens of one call from its arguments, by name.
    token_estimate: Callable[[Mapping[str, Any]], int] | None = None

    # -- callers

    def using(self, **options: Any) -> BoundAction:
        """Return this action with per-call options: cpu, gpu, duration, bucket, timeout, max_queue, priority,
        qos, trajectory, action_key, and any option of Celery's `apply_async`.

        The result of a call with an `action_key` is recorded; a later one in the same job, also from a process that was
        started anew, gets it without running anything. Faults of the machinery are not recorded.
        """
        return BoundAction(self, options)

    async def asubmit(self, *args: Any, **kwargs: Any) -> ActionHandle:
        """Publish, and return a handle as soon as the broker has the message."""
        return await self.using().asubmit(*args, **kwargs)

    async def adelay(self, *args: Any, **kwargs: Any) -> Any:
        """Publish and await the result; cancelling the await cancels the action. Raises the action's error."""
        return await self.using().adelay(*args, **kwargs)

    def spec_for(self, args: Sequence[Any] | None, kwargs: Mapping[str, Any] | None) -> ActionSpec | None:
        """Return the demand of one call; the function's arguments are checked on the way.

        Raises:
            InvalidAction: the function cannot be called with these arguments (what it is given here is left out).
        """
        if self.spec is None:
            return None
        placeholder = (None,) if self.spec.sandbox or self.takes_service else ()
        try:
            bound = self._signature.bind(*placeholder, *(args or ()), **(kwargs or {}))
        except TypeError as error:
            raise InvalidAction(f"{self.name}: {error}") from None
        changes: dict[str, object] = {}
        if self.provider_argument is not None:
            changes["demand"] = {"sizes": {API_PREFIX + bound.arguments[self.provider_argument]: (1,)}}
        if self.service_argument is not None:
            changes["service"] = bound.arguments[self.service_argument]
        estimate = type(self).token_estimate
        if estimate is not None:
            changes["tokens"] = estimate(bound.arguments)
        return self.spec.override(**changes)

    @cached_property
    def _signature(self) -> inspect.Signature:
        return inspect.signature(self.run)

    # -- worker

    def before_start(self, task_id: str, args: Any, kwargs: Any) -> None:
        """Claim the grant, once."""
        if self.spec is not None and self._granted:
            self._runtime.claim(self.request)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the body with the granted resources."""
        if self.spec is None or not self._granted:
            return self._run_without_grant(*args, **kwargs)
        with self._runtime.resources(self.request) as context:
            return self._checked(self._run_with(context, *args, **kwargs))

    def _run_with(self, context: ActionContext, *args: Any, **kwargs: Any) -> Any:
        token = _current.set(context)
        try:
            given = context.service if self.takes_service else context.sandbox
            return self.run(*args, **kwargs) if given is None else self.run(given, *args, **kwargs)
        finally:
            _current.reset(token)

    def _checked(self, result: Any) -> Any:
        """Raise ResultTooLarge for what the broker should not have to carry."""
        app: Any = self.app
        limit = app.settings.max_result
        try:
            size = len(dumps(result))
        except (TypeError, ValueError):
            return result  # Celery says why
        if size > limit:
            raise ResultTooLarge(f"the result of {self.name} has {size} bytes, more than {limit} (TANGRAM_MAX_RESULT)")
        return result

    def _run_without_grant(self, *args: Any, **kwargs: Any) -> Any:
        """Eager mode and direct calls: the body runs here and now, so the caller must pass a sandbox or a service."""
        if self.spec is not None and not self.request.called_directly and (self.spec.sandbox or self.takes_service):
            what = "a service" if self.takes_service else "a sandbox"
            raise ConfigurationError(f"{self.name} needs {what}: eager mode cannot give one; use a worker")
        return super().__call__(*args, **kwargs)

    @property
    def _granted(self) -> bool:
        return bool(self.request.get(GRANT_HEADER))

    @property
    def _runtime(self) -> Any:
        runtime = getattr(self.app, "runtime", None)
        if runtime is None:
            raise ConfigurationError(f"{self.name} was granted to a worker that tangram did not start")
        return runtime


class BoundAction:
    """An action with per-call options.

    Args:
        task: the action.
        options: see `ActionTask.using`.
    """

    def __init__(self, task: ActionTask, options: dict[str, Any]) -> None:
        self._task = task
        self._options = options

    def delay(self, *args: Any, **kwargs: Any) -> AsyncResult[Any]:
        """Publish; the plain Celery way."""
        return self._task.apply_async(args, kwargs, **self._options)

    def s(self, *args: Any, **kwargs: Any) -> Any:
        """Return a signature that carries the options."""
        return self._task.s(*args, **kwargs).set(**self._options)

    async def asubmit(self, *args: Any, **kwargs: Any) -> ActionHandle:
        """Publish, and return a handle as soon as the broker has the message."""
        app: Any = self._task.app
        return await hub_of(app).submit(self._task, args, kwargs, self._options)

    async def adelay(self, *args: Any, **kwargs: Any) -> Any:
        """Publish and await the result; cancelling the await cancels the action."""
        handle = await self.asubmit(*args, **kwargs)
        return await handle.result_or_cancel()
