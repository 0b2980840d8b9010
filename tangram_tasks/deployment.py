"""What the client's parts need of the app: where the deployment is and how to talk to it."""

from __future__ import annotations

from typing import Any, Protocol

from tangram_tasks.control_messages import ControlMessage
from tangram_tasks.errors import BrokerUnavailable
from tangram_tasks.keys import Keys


class Deployment(Protocol):
    """A deployment as `TangramApp` offers it."""

    url: str
    job: str
    keys: Keys

    @property
    def backend(self) -> Any:
        """Celery's result backend."""

    def send_control(self, *messages: ControlMessage) -> None:
        """Tell the scheduler something. Raises BrokerUnavailable."""

    def opens_first(self, trajectory: str) -> bool:
        """Whether nobody has opened this trajectory yet. Raises BrokerUnavailable."""

    def unavailable(self, error: Exception) -> BrokerUnavailable:
        """Return the error that says that the broker does not answer, without its password."""
