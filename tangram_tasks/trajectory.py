"""A trajectory: one agent's sequence of actions, and the sandbox they share."""

from __future__ import annotations

import time
from contextvars import Token
from types import TracebackType
from typing import Self
from uuid import uuid4

from pydantic import ValidationError

from tangram_tasks.deployment import Deployment
from tangram_tasks.errors import InvalidAction
from tangram_tasks.hub import hub_of
from tangram_tasks.publisher import current_trajectory
from tangram_tasks.resources import memory_mib
from tangram_tasks.wire import CloseTrajectory, OpenTrajectory

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def seconds(text: str | float) -> float:
    """Return a duration in seconds from a number or text such as "90s", "10m", "2h". Raises InvalidAction."""
    try:
        if isinstance(text, str) and text[-1:] in _SECONDS:
            value = float(text[:-1]) * _SECONDS[text[-1]]
        else:
            value = float(text)
    except ValueError:
        raise InvalidAction(f"cannot read the duration {text!r}: write '90s', '10m', '2h' or seconds") from None
    if value <= 0:
        raise InvalidAction(f"a duration must be more than nothing, not {text!r}")
    return value


class Trajectory:
    """Use as `with` or `async with`; inside, actions belong to it. Leaving removes the sandbox.

    Opening returns at once: the sandbox is made while the model generates its first tokens.

    Args:
        app: the app whose scheduler is asked.
        image: container image.
        memory: the sandbox's memory for its whole life.
        max_lifetime: the trajectory is closed after this, should its owner be gone.
        network: "none" or "bridge".
        env: environment of every command.

    Raises:
        InvalidAction: an argument is wrong.
    """

    def __init__(
        self,
        app: Deployment,
        *,
        image: str = "tangram-base:latest",
        memory: str | int = "512MiB",
        max_lifetime: str | float = "2h",
        network: str = "none",
        env: dict[str, str] | None = None,
    ) -> None:
        self.id = uuid4().hex
        self._app = app
        self._token: Token[str | None] | None = None
        try:
            self._order = OpenTrajectory(
                trajectory=self.id,
                image=image,
                memory=memory_mib(memory),
                expires_at=time.time() + seconds(max_lifetime),
                network=network,  # type: ignore[arg-type]  # pydantic checks
                env=env or {},
                job=app.job,
            )
        except ValidationError as error:
            raise InvalidAction("; ".join(f"{row['loc'][0]}: {row['msg']}" for row in error.errors())) from None

    def __repr__(self) -> str:
        return f"<Trajectory {self.id}>"

    def _enter(self) -> Self:
        self._token = current_trajectory.set(self.id)
        return self

    def _leave(self) -> None:
        if self._token is not None:
            current_trajectory.reset(self._token)
            self._token = None

    def __enter__(self) -> Self:
        self._app.send_control(self._order)
        return self._enter()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._leave()
        self._app.send_control(CloseTrajectory(trajectory=self.id))

    async def __aenter__(self) -> Self:
        await hub_of(self._app).control(self._order)
        return self._enter()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        self._leave()
        await hub_of(self._app).control(CloseTrajectory(trajectory=self.id))
