"""What stands in a decorator: Celery's options and the action's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tangram_tasks.action import ActionSpec, declare
from tangram_tasks.errors import InvalidAction
from tangram_tasks.isolation import DEFAULT_IMAGE, STATELESS_MEMORY
from tangram_tasks.task import sandbox_parameter


def split_options(run: Callable[..., Any], options: dict[str, Any]) -> tuple[dict[str, Any], ActionSpec]:
    """Split a decorator's options into Celery's and the action's. Raises InvalidAction."""
    ours = {*ActionSpec.model_fields, "cpu", "gpu", "memory", "api"} - {"priority", "demand"}
    resources = {name: value for name, value in options.items() if name in ours or name == "priority"}
    celery_options = {name: value for name, value in options.items() if name not in resources}
    try:
        stateless = _stateless_defaults(resources)
        spec = declare(sandbox=sandbox_parameter(run, bound=bool(options.get("bind"))), **{**stateless, **resources})
    except InvalidAction as error:
        raise InvalidAction(f"action {getattr(run, '__name__', run)!s}: {error}") from None
    return celery_options, spec


def _stateless_defaults(resources: dict[str, Any]) -> dict[str, Any]:
    """Take the option `sandbox` out; return what a stateless action has unless it says otherwise."""
    kind = resources.pop("sandbox", "trajectory")
    if kind == "stateless":
        return {"memory": STATELESS_MEMORY, "image": DEFAULT_IMAGE}
    if kind != "trajectory":
        raise InvalidAction(f"sandbox must be 'trajectory' or 'stateless', not {kind!r}")
    if "image" in resources:
        raise InvalidAction(
            "image belongs to a stateless action: add sandbox='stateless', or open a trajectory with it"
        )
    return {}
