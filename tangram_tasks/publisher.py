"""Turns the options of one publish into an admission message, and builds finished envelopes without sending them."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any, Literal

from kombu import Connection, Producer
from kombu.utils.json import dumps
from pydantic import BaseModel, ValidationError

from tangram_tasks.action import ActionSpec, Name, Sizes
from tangram_tasks.errors import InvalidAction
from tangram_tasks.keys import ADMISSION_QUEUE
from tangram_tasks.wire import GRANT_HEADER, HEADER, ActionHeader

#: The trajectory that `with app.trajectory()` made current here.
current_trajectory: ContextVar[str | None] = ContextVar("tangram_trajectory", default=None)

#: Per-call options of ours, taken out of what Celery gets to see.
CALL_OPTIONS = ("cpu", "gpu", "duration", "bucket", "timeout", "max_queue", "priority", "qos", "tokens", "trajectory")

#: Options by which a message could be sent past the admission queue.
_ROUTING = ("exchange", "routing_key", "delivery_info", "queue")


class _Carriage(BaseModel):
    """Celery's options that make a message which the scheduler must refuse, and may not even be able to answer."""

    task_id: Name | None = None
    serializer: Literal["json"] | None = None
    compression: None = None


def admission_options(name: str, header: ActionHeader, options: dict[str, Any]) -> dict[str, Any]:
    """Return Celery's publish options with our header in and everything that would bypass admission out.

    Args:
        name: task name, for messages.
        header: as declared.
        options: what the caller gave, ours and Celery's mixed. A copied header (retry) keeps its trajectory.

    Raises:
        InvalidAction: a per-call option or one of Celery's is wrong, or a sandbox action has no trajectory.
    """
    rest = dict(options)
    ours = {key: rest.pop(key) for key in CALL_OPTIONS if key in rest}
    headers = dict(rest.pop("headers", None) or {})
    headers.pop(GRANT_HEADER, None)
    copied = headers.get(HEADER) or {}
    trajectory = ours.pop("trajectory", None) or copied.get("trajectory") or current_trajectory.get()
    try:
        # A retry copies the headers of the first try, and with them its per-call options.
        spec = ActionSpec.model_validate(copied["spec"]) if copied else header.spec
        spec = spec.override(**_changes(spec, ours))
        _Carriage.model_validate(rest)
    except InvalidAction as error:
        raise InvalidAction(f"{name}: {error}") from None
    except ValidationError as error:
        rows = "; ".join(f"{'.'.join(map(str, row['loc']))}: {row['msg']}" for row in error.errors())
        raise InvalidAction(f"{name}: {rows}") from None
    if spec.sandbox and spec.image is None and trajectory is None:
        raise InvalidAction(f"{name} runs in a sandbox: call it inside `with app.trajectory(...)` or pass trajectory=")
    header = header.model_copy(update={"spec": spec, "trajectory": trajectory})
    headers[HEADER] = header.model_dump(mode="json")
    for key in _ROUTING:
        rest.pop(key, None)
    return {**rest, "queue": ADMISSION_QUEUE, "headers": headers}


def _changes(spec: ActionSpec, ours: dict[str, Any]) -> dict[str, Any]:
    changes = {key: value for key, value in ours.items() if value is not None}
    sizes = {key: _as_sizes(key, changes.pop(key)) for key in ("cpu", "gpu") if key in changes}
    if sizes:
        changes["demand"] = {"sizes": {**spec.demand.sizes, **sizes}}
    return changes


def _as_sizes(name: str, asked: Sizes) -> tuple[int, ...]:
    try:
        return (asked,) if isinstance(asked, int) else tuple(int(size) for size in asked)
    except (TypeError, ValueError):
        raise InvalidAction(f"{name} must be a number of units or the allowed ones, not {asked!r}") from None


class EnvelopeProducer(Producer):
    """A producer that keeps the finished envelope instead of sending it, for publishing many in one pipeline.

    It borrows an in-memory channel, which builds the same envelope as the Redis one.
    """

    def __init__(self) -> None:
        self.envelope = ""
        super().__init__(Connection("memory://").channel(), serializer="json", auto_declare=False)

    def take(self) -> str:
        """Return the envelope that was built last, once."""
        envelope, self.envelope = self.envelope, ""
        return envelope

    def _publish(self, body: Any, priority: Any, content_type: Any, content_encoding: Any, headers: Any,
                 properties: Any, routing_key: Any, mandatory: Any, immediate: Any, exchange: Any,
                 *rest: Any, **options: Any) -> None:  # fmt: skip
        channel: Any = self.channel
        message = channel.prepare_message(body, priority, content_type, content_encoding, headers, properties)
        channel._inplace_augment_message(message, exchange, routing_key)
        self.envelope = dumps(message)
