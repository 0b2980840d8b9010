"""What Celery's workers take for granted about a message of protocol 2, as models.

A worker reads most of these fields outside any try: one message with a wrong one ends its consumer loop, and comes back
to end the next. So a message that does not fit is refused here, and the copy that a worker gets holds nothing else.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from celery.app.task import Context
from kombu.transport.virtual.base import Base64
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictBool, StrictInt, StrictStr, model_validator

from tangram_tasks.action import Name
from tangram_tasks.keys import ADMISSION_QUEUE


def _milliseconds(moment: str) -> int:
    parsed = datetime.fromisoformat(moment)
    return int((parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp() * 1000)


def _is_moment(moment: str) -> str:
    _milliseconds(moment)
    return moment


Count = Annotated[StrictInt, Field(ge=0, lt=2**31)]
Moment = Annotated[StrictStr, AfterValidator(_is_moment)]
Seconds = Annotated[float, Field(strict=True, ge=0, allow_inf_nan=False)]


class Headers(BaseModel):
    """The headers. Others may stand beside them, except those that would replace something in a worker's request."""

    model_config = ConfigDict(extra="allow")

    id: Name
    task: Name
    retries: Count | None = 0
    replaced_task_nesting: Count | None = 0
    timelimit: tuple[Seconds | None, Seconds | None] | None = None
    eta: Moment | None = None
    expires: Moment | None = None
    group: StrictStr | None = None
    group_index: Count | None = None
    root_id: StrictStr | None = None
    parent_id: StrictStr | None = None
    shadow: StrictStr | None = None
    argsrepr: StrictStr | None = None
    kwargsrepr: StrictStr | None = None
    origin: StrictStr | None = None
    lang: StrictStr | None = None
    ignore_result: StrictBool | None = None
    redelivered: StrictBool | None = None
    stamped_headers: list[StrictStr] | None = None
    stamps: dict[str, Any] | None = None
    compression: None = None
    headers: dict[str, Any] | None = None  # a second copy of a client's own ones: tracers put it here

    @model_validator(mode="after")
    def _replaces_nothing(self) -> Headers:
        taken = sorted(name for name in self.model_extra or () if hasattr(Context, name))
        if taken:
            raise ValueError(f"header {taken[0]} would replace what Celery keeps under this name")
        return self

    @property
    def try_number(self) -> tuple[int, int]:
        """Which of its action's messages it is: Celery's retries and replacements so far."""
        return self.retries or 0, self.replaced_task_nesting or 0

    @property
    def eta_ms(self) -> int | None:
        """Wall clock ms before which it must not start."""
        return None if self.eta is None else _milliseconds(self.eta)

    @property
    def expires_ms(self) -> int | None:
        """Wall clock ms after which it must not start."""
        return None if self.expires is None else _milliseconds(self.expires)


class Signature(BaseModel):
    """A task to be sent later, as it rides in a message."""

    model_config = ConfigDict(extra="allow")

    task: Name
    args: list[Any] | None = None
    kwargs: dict[str, Any] | None = None
    options: dict[str, Any] | None = None


class Embed(BaseModel):
    """What rides in the body beside the arguments."""

    model_config = ConfigDict(extra="forbid")

    callbacks: list[Signature] | None = None
    errbacks: list[Signature] | None = None
    chain: list[Signature] | None = None
    chord: Signature | None = None


class Properties(BaseModel):
    """The properties that are passed on; kombu's own are written anew."""

    correlation_id: StrictStr | None = None
    reply_to: StrictStr | None = None
    body_encoding: Literal["base64"] | None = None

    def addressed(self, tag: str) -> dict[str, Any]:
        """Return the properties of a message to a worker.

        Args:
            tag: unique for this copy. kombu keeps what is unacknowledged under it.
        """
        home = {"exchange": "", "routing_key": ADMISSION_QUEUE}
        return {**self.model_dump(), "delivery_mode": 2, "delivery_info": home, "priority": 0, "delivery_tag": tag}


class Message(BaseModel):
    """A whole message."""

    model_config = ConfigDict(extra="ignore", populate_by_name=True)

    body: StrictStr
    content_type: Literal["application/json"] = Field(alias="content-type")
    content_encoding: Literal["utf-8"] = Field(alias="content-encoding")
    headers: Headers
    properties: Properties

    def embed(self) -> dict[str, Any]:
        """Return what rides in the body beside the arguments. Raises ValueError, TypeError or ValidationError."""
        body = Base64().decode(self.body) if self.properties.body_encoding else self.body.encode()
        args, kwargs, embed = json.loads(body.decode("utf-8"))
        if not (isinstance(args, list) and isinstance(kwargs, dict) and isinstance(embed, dict)):
            raise TypeError("body: it must hold arguments, keyword arguments and what rides beside them")
        Embed.model_validate(embed)
        return embed
