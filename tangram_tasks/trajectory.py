"""A trajectory: one agent's sequence of actions, and the sandbox they share."""

from __future__ import annotations

import time
from contextvars import Token
from types import TracebackType
from typing import Any, Self
from uuid import uuid4

from pydantic import ValidationError

from tangram_tasks.control_messages import CloseTrajectory, OpenTrajectory
from tangram_tasks.deployment import Deployment
from tangram_tasks.egress import SetNetwork
from tangram_tasks.errors import InvalidAction
from tangram_tasks.hub import hub_of
from tangram_tasks.isolation import DEFAULT_IMAGE, refuse_options
from tangram_tasks.journal import Journal, current_journal, stable_id
from tangram_tasks.publisher import current_trajectory
from tangram_tasks.resources import MIB, memory_mib

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
        network: "none", "bridge", or the name of a network that the nodes' engines know.
        env: environment of every command.
        mounts: folders of the node, shown read-only, such as `{"/data/set": "/data"}`. Only what is below the roots
            that the node's operator allows.
        user: uid of every command, not 0; by default 1000.
        fork_of: id of the trajectory whose files it begins with; use `fork`.
        journal: a name of its own within the job. Its actions are numbered, and their results recorded: a process that
            enters a trajectory of the same name again, and makes the same calls in the same order, gets the recorded
            results without anything being run, and goes on in the same sandbox if that still stands.
        refused: anything else is refused by name.

    Raises:
        InvalidAction: an argument is wrong, or would open the sandbox to its host.
    """

    def __init__(
        self,
        app: Deployment,
        *,
        image: str = DEFAULT_IMAGE,
        memory: str | int = "512MiB",
        max_lifetime: str | float = "2h",
        network: str = "none",
        env: dict[str, str] | None = None,
        mounts: dict[str, str] | None = None,
        user: int | None = None,
        fork_of: str | None = None,
        journal: str | None = None,
        **refused: object,
    ) -> None:
        refuse_options(refused)
        self.id = uuid4().hex if journal is None else stable_id(app.job, "trajectory", journal)
        self._app = app
        self._journal = None if journal is None else Journal(journal)
        self._tokens: tuple[Token[str | None], Token[Journal | None]] | None = None
        try:
            self._order = OpenTrajectory(
                trajectory=self.id,
                image=image,
                memory=memory_mib(memory),
                expires_at=time.time() + seconds(max_lifetime),
                network=network,
                env=env or {},
                job=app.job,
                mounts=mounts or {},
                user=user,
                fork_of=fork_of,
            )
        except ValidationError as error:
            raise _invalid(error) from None

    def set_network(self, network: str) -> None:
        """Change what the sandbox can reach, for example from set-up with "bridge" to the agent's turns with "none".

        Returns at once. What runs meanwhile keeps its connections for some ms more; no action that is published
        after this starts before the change is made, and one fails if it cannot be.

        Args:
            network: "none", "bridge", or the name of a network that the nodes' engines know.

        Raises:
            InvalidAction: that is no network, or the trajectory is not open.
            BrokerUnavailable: the broker does not answer.
        """
        self._app.send_control(wish := self._wish(network))
        self._order = self._order.model_copy(update={"network": wish.network})

    async def aset_network(self, network: str) -> None:
        """As `set_network`, for `async with`."""
        await hub_of(self._app).control(wish := self._wish(network))
        self._order = self._order.model_copy(update={"network": wish.network})

    def _wish(self, network: str) -> SetNetwork:
        try:
            wish = SetNetwork(trajectory=self.id, network=network)
        except ValidationError as error:
            raise _invalid(error) from None
        if self._tokens is None:
            raise InvalidAction(f"trajectory {self.id} is not open: say network={network!r} where it is made")
        return wish

    def fork(self, **options: Any) -> Trajectory:
        """Return a trajectory that begins with a copy of this one's work and temporary files, on the same node.

        Nothing else is shared: not its processes, and neither can reach the other. So a grader may put hidden tests
        into a fork, and the agent's own sandbox never holds them. The copy is made when the fork is entered; what
        runs meanwhile in this trajectory may or may not be in it.

        Args:
            options: those of Trajectory that shall differ from this one's; the image cannot.

        Raises:
            InvalidAction: an argument is wrong.
        """
        if "image" in options:
            raise InvalidAction("a fork has the image of its trajectory: leave image out")
        order = self._order
        inherited: dict[str, Any] = {"network": order.network, "env": order.env, "mounts": order.mounts}
        inherited |= {"memory": order.memory * MIB, "max_lifetime": order.expires_at - time.time(), "user": order.user}
        return Trajectory(self._app, image=order.image, fork_of=self.id, **{**inherited, **options})

    def __repr__(self) -> str:
        return f"<Trajectory {self.id}>"

    def _enter(self) -> Self:
        self._tokens = (current_trajectory.set(self.id), current_journal.set(self._journal))
        return self

    def _leave(self) -> None:
        if self._tokens is not None:
            trajectory, journal = self._tokens
            current_trajectory.reset(trajectory)
            current_journal.reset(journal)
            self._tokens = None

    def _opens(self) -> bool:
        """Whether a sandbox is to be asked for: one that was opened before and is gone must not come back empty."""
        return self._journal is None or self._app.opens_first(self.id)

    def __enter__(self) -> Self:
        if self._opens():
            self._app.send_control(self._order)
        return self._enter()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._leave()
        self._app.send_control(CloseTrajectory(trajectory=self.id))

    async def __aenter__(self) -> Self:
        if self._opens():
            await hub_of(self._app).control(self._order)
        return self._enter()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        self._leave()
        await hub_of(self._app).control(CloseTrajectory(trajectory=self.id))


def _invalid(error: ValidationError) -> InvalidAction:
    return InvalidAction("; ".join(f"{row['loc'][0]}: {row['msg']}" for row in error.errors()))
