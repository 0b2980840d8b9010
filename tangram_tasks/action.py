"""What an action asks for: its demand, its limits and how it scales."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictStr, ValidationError, field_validator, model_validator

from tangram_tasks.elasticity import Elasticity, Fixed
from tangram_tasks.errors import InvalidAction
from tangram_tasks.resources import API_PREFIX, CPU, GPU, MEMORY, ResourceVector, memory_mib

#: Latency-sensitive or best effort: which of two actions the kernel favours where they meet.
Qos = Literal["ls", "be"]
#: No time is longer than this, s (30 years): what is meant to be endless is None, and sums must stay numbers.
LONGEST = 1e9
#: No action needs more of a resource than this, in its units.
LARGEST = 2**31
#: What Celery makes keys of: an action's id, its task's name.
Name = Annotated[StrictStr, Field(min_length=1, max_length=1024)]
#: What an action may be given as a size: one number, or the allowed ones.
Sizes = int | Iterable[int]


class Demand(BaseModel):
    """The resources one action needs at least, and the sizes it can use of its key elastic resource.

    Args:
        sizes: resource name to its allowed sizes, ascending. At most one resource has more than one size.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    sizes: dict[str, tuple[int, ...]]

    @field_validator("sizes")
    @classmethod
    def _are_sizes(cls, sizes: dict[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
        if not sizes:
            raise ValueError("an action must ask for something: cpu, gpu or an API")
        for name, allowed in sizes.items():
            if name not in (CPU, GPU, MEMORY) and not name.startswith(API_PREFIX):
                raise ValueError(f"unknown resource {name!r}: use cpu, gpu, memory or api:NAME")
            if not allowed or allowed[0] < 1 or list(allowed) != sorted(set(allowed)):
                raise ValueError(f"sizes of {name} must rise from 1 or more, not {list(allowed)}")
            if allowed[-1] > LARGEST:
                raise ValueError(f"{allowed[-1]} of {name} is more than anybody has")
        elastic = [name for name, allowed in sizes.items() if len(allowed) > 1]
        if len(elastic) > 1 or MEMORY in elastic:
            raise ValueError(f"only one of cpu, gpu or an API can be elastic, not {' and '.join(elastic)}")
        return sizes

    @property
    def key(self) -> str:
        """The key elastic resource: the one with several sizes, else gpu, an API, or cpu."""
        rank = {GPU: 1, CPU: 3, MEMORY: 4}
        return min(self.sizes, key=lambda name: (len(self.sizes[name]) == 1, rank.get(name, 2)))

    @property
    def minimum(self) -> ResourceVector:
        """The least this action can start with."""
        return ResourceVector({name: allowed[0] for name, allowed in self.sizes.items()})


class ActionSpec(BaseModel):
    """Everything the system knows of a kind of action before it runs. Times are in seconds.

    Args:
        demand: resources at least, and allowed sizes.
        elasticity: how the duration falls with units of the key resource.
        duration: expected duration on one unit; a prior, which what is observed takes over from.
        bucket: what sets the durations of some actions of this task apart (a repository, say); they are learned
            apart, and begin with those of the task.
        timeout: limit on execution only; waiting does not count.
        max_queue: limit on waiting; None waits for ever.
        on_lost: what to do when the node dies: run it again, or fail it with NodeLost.
        max_attempts: how often it may be started in all.
        malleable: its units may change while it runs.
        light: it needs next to no cpu (reads or edits a file): it skips sizing and never waits for cores.
        sandbox: it runs in a sandbox, by default its trajectory's.
        image: it runs in a clean sandbox of this image that is its own, and needs no trajectory ("stateless").
        service: the reward model it calls, for gpu actions.
        tokens: what its calls of an API are expected to use, where the provider limits that.
        priority: higher goes first among waiting actions.
        qos: "ls" (latency-sensitive) or "be" (best effort): whom the kernel favours once both run; cpu only.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    demand: Demand
    elasticity: Elasticity = Fixed()
    duration: float = Field(default=1.0, gt=0, le=LONGEST)
    bucket: str = Field(default="", max_length=200)
    timeout: float = Field(default=600.0, gt=0, le=LONGEST)
    max_queue: float | None = Field(default=None, gt=0, le=LONGEST)
    on_lost: Literal["requeue", "fail"] = "requeue"
    max_attempts: int = Field(default=3, ge=1, le=1000)
    malleable: bool = False
    light: bool = False
    sandbox: bool = False
    image: str | None = Field(default=None, min_length=1)
    service: str | None = None
    tokens: int = Field(default=0, ge=0)
    priority: int = Field(default=0, ge=-1000, le=1000)
    qos: Qos = "ls"

    @model_validator(mode="after")
    def _curve_covers_sizes(self) -> ActionSpec:
        if max(self.durations()) > LONGEST:
            raise ValueError(f"with its elasticity it would take {max(self.durations()):g} s, longer than {LONGEST:g}")
        if self.sandbox and CPU not in self.demand.sizes:
            raise ValueError("an action that runs in a sandbox must ask for cpu")
        if self.image is not None and (not self.sandbox or MEMORY not in self.demand.sizes):
            raise ValueError("an action with an image must be stateless, take a sandbox, and ask for memory")
        if self.service is not None and GPU not in self.demand.sizes:
            raise ValueError("an action that calls a service must ask for gpu")
        if self.tokens and not self.demand.key.startswith(API_PREFIX):
            raise ValueError("an action with tokens must ask for an API")
        if self.light and (self.demand.key != CPU or len(self.demand.sizes[CPU]) > 1):
            raise ValueError("a light action must ask for cpu, in one size")
        return self

    def durations(self) -> tuple[float, ...]:
        """Return the expected duration in seconds at each size of the key resource."""
        return tuple(self.elasticity.duration(self.duration, m) for m in self.demand.sizes[self.demand.key])

    def override(self, **changes: object) -> ActionSpec:
        """Return a copy with some fields replaced, checked again. Raises InvalidAction."""
        if not changes:
            return self
        fields = {name: getattr(self, name) for name in type(self).model_fields}
        try:
            return ActionSpec(**{**fields, **changes})
        except ValidationError as error:
            raise InvalidAction(_reasons(error)) from None


def declare(
    *,
    cpu: Sizes | None = None,
    gpu: Sizes | None = None,
    memory: str | int | None = None,
    api: Mapping[str, int] | str | None = None,
    **fields: object,
) -> ActionSpec:
    """Build an ActionSpec from what people write in a decorator.

    Args:
        cpu: units, or the allowed sizes, for example `(1, 2, 4, 8)`.
        gpu: devices, or the allowed sizes.
        memory: for example "2GiB".
        api: provider name, or provider to calls in flight.
        fields: the other fields of ActionSpec.

    Raises:
        InvalidAction: anything in it is wrong; the message says what.
    """
    sizes: dict[str, tuple[int, ...]] = {}
    for name, asked in ((CPU, cpu), (GPU, gpu)):
        if asked is not None:
            sizes[name] = (asked,) if isinstance(asked, int) else tuple(asked)
    if memory is not None:
        sizes[MEMORY] = (memory_mib(memory),)
    providers = {api: 1} if isinstance(api, str) else dict(api or {})
    sizes.update({API_PREFIX + name: (calls,) for name, calls in providers.items()})
    unknown = set(fields) - set(ActionSpec.model_fields)
    if unknown:
        raise InvalidAction(f"unknown resource or option: {', '.join(sorted(unknown))}")
    try:
        return ActionSpec(demand=Demand(sizes=sizes), **fields)  # type: ignore[arg-type]  # pydantic checks
    except ValidationError as error:
        raise InvalidAction(_reasons(error)) from None


def _reasons(error: ValidationError) -> str:
    return "; ".join(
        f"{'.'.join(str(step) for step in row['loc'])}: {row['msg']}".removeprefix(": ") for row in error.errors()
    )
