"""A service that computes in this process: its spec, its methods, and its replicas on the devices."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from tangram_tasks.errors import ConfigurationError, ServiceUnavailable, TangramError
from workers.canary import Canary
from workers.device_ops import DeviceOps
from workers.host_image import HostImage
from workers.replica import Replica, clone
from workers.service import Place, Watch, method_named


@dataclass(frozen=True, slots=True)
class Method:
    """One thing a service can be asked.

    Args:
        items: the payload's independent items, checked. Raises InvalidAction saying what it expects.
        run: answers a batch of items with one JSON-able value per item, in order. It gets the module, whose first
            parameter tells the device, and runs in inference mode.
        batch: items per run at most; deadlines and cancels are looked at between runs.
    """

    items: Callable[[dict[str, Any]], Sequence[Any]]
    run: Callable[[nn.Module, Sequence[Any]], list[Any]]
    batch: int = 16


@dataclass(frozen=True, slots=True)
class Model:
    """What a loader returns.

    Args:
        module: in eval mode, with its weights in ordinary memory.
        methods: how to ask it.
        mutable: names of buffers that calls change and whose changes must last; only on nodes with one device.
        on_relocate: called with the module when its weights have new addresses, for what remembers them.
    """

    module: nn.Module
    methods: Mapping[str, Method]
    mutable: frozenset[str] = frozenset()
    on_relocate: Callable[[nn.Module], None] | None = None


@dataclass(frozen=True, slots=True)
class LoadContext:
    """What a loader may need to know.

    Args:
        state_dir: where converted weights can be cached.
        accelerated: it will run on a GPU, so half precision is faster; on most CPUs it is slower.
    """

    state_dir: Path
    accelerated: bool = False


@dataclass(frozen=True, slots=True)
class ServiceSpec:
    """A service before it is loaded.

    Args:
        name: by which actions ask for it.
        load: returns its model; whatever it raises becomes a ConfigurationError.
        canary: a question with a known answer.
        sizes: numbers of devices that an action may have; () allows any.
    """

    name: str
    load: Callable[[LoadContext], Model]
    canary: Canary | None = None
    sizes: tuple[int, ...] = ()


class TorchService:
    """A loaded service: a host image and methods; implements `workers.service.Service`.

    Args:
        spec: what it was loaded from.
        model: the loader's.
        image: the model's weights.
    """

    residual_bytes = 0
    in_arena = True
    spans: tuple[tuple[int, ...], ...] = ()

    def __init__(self, spec: ServiceSpec, model: Model, image: HostImage) -> None:
        self.name = spec.name
        self.canary = spec.canary
        self.sizes = spec.sizes
        self.image = image
        self.nbytes = image.nbytes
        self._freed = False
        self._module = model.module
        self._methods = model.methods
        self._on_relocate = model.on_relocate

    @classmethod
    def load(cls, spec: ServiceSpec, context: LoadContext, ops: DeviceOps) -> TorchService:
        """Load a service and build its host image. Raises ConfigurationError naming the service."""
        try:
            model = spec.load(context)
            model.module.requires_grad_(False)
            image = HostImage.from_module(model.module, ops, mutable=model.mutable)
        except ModuleNotFoundError as error:
            raise ConfigurationError(
                f"service {spec.name} needs the module {error.name}, which is missing: install tangram-rl[rewards]"
            ) from error
        except ConfigurationError as error:
            raise type(error)(f"service {spec.name}: {error}") from error
        except Exception as error:  # a loader is somebody's code and reads files: all of it is a set-up fault
            raise ConfigurationError(f"service {spec.name} could not be loaded: {error!r}") from error
        return cls(spec, model, image)

    def replicas(self, places: Sequence[Place]) -> list[Replica]:
        """Return one replica per place. Raises ConfigurationError."""
        if self.image.mutable and len(places) > 1:
            raise ConfigurationError(f"service {self.name} has mutable buffers: it can be on one device only")
        modules = [self._module, *(clone(self._module) for _ in places[1:])]  # before any gets its guard
        return [self._replica(module, place) for module, place in zip(modules, places, strict=True)]

    def _replica(self, module: nn.Module, place: Place) -> Replica:
        if place.ops is None or place.memory is None:
            raise ConfigurationError(f"service {self.name} needs an arena on device {place.device}")
        return Replica(
            self.name,
            module,
            self.image,
            place.ops,
            place.memory,
            overlap=place.overlap,
            on_relocate=self._on_relocate,
        )

    def method(self, name: str) -> Method:
        """Return a method. Raises InvalidAction naming those there are."""
        return method_named(self.name, self._methods, name)

    def run(self, name: str, replica: Replica, items: Sequence[Any], watch: Watch) -> list[Any]:
        """Answer one batch on a leased replica. Raises ServiceUnavailable for whatever goes wrong in the model.

        A batch that computes cannot be interrupted: `watch` is looked at between batches.
        """
        try:
            with torch.inference_mode():
                answers = self.method(name).run(replica.module, items)
        except TangramError:
            raise
        except Exception as error:  # a model is somebody's code: its fault must not look like a verdict
            raise ServiceUnavailable(f"service {self.name} failed in {name} on {replica.device}: {error!r}") from error
        if len(answers) != len(items):
            raise ServiceUnavailable(f"service {self.name} gave {len(answers)} answers to {len(items)} items in {name}")
        return answers

    def free(self) -> None:
        """Give the host image's memory back. Idempotent."""
        if not self._freed:
            self._freed = True
            self.image.free()


def finite(service: str, values: Iterable[float]) -> list[float]:
    """Return the values as a list. Raises ServiceUnavailable if one is NaN or infinite: that is not a reward."""
    numbers = list(values)
    if not all(map(math.isfinite, numbers)):
        raise ServiceUnavailable(f"service {service} computed a value that is not a number")
    return numbers
