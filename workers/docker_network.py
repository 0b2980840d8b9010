"""Which network a running container is in. It is out of the old one before it is in the new one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tangram_tasks.errors import SandboxError
from workers.docker_engine import engine_errors

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.models.containers import Container


def switch_network(engine: DockerClient, container: Container, network: str) -> None:
    """Leave every other network, "none" included, and join this one. Idempotent.

    Args:
        engine: the container's engine.
        container: it must run.
        network: a name.

    Raises:
        SandboxError: the engine knows no such network, or does not let the container in: it has none then. Or it
            does not let it out: then nothing has changed.
    """
    from docker.errors import NotFound

    try:
        container.reload()
        for name in container.attrs["NetworkSettings"]["Networks"].keys() - {network}:
            engine.networks.get(name).disconnect(container)
        container.reload()
        if network not in container.attrs["NetworkSettings"]["Networks"]:
            engine.networks.get(network).connect(container)
    except NotFound as error:
        raise SandboxError(
            f"container {container.short_id} cannot join network {network}: {error}. See `docker network ls`"
        ) from None
    except engine_errors() as error:
        raise SandboxError(f"container {container.short_id} cannot join network {network}: {error}") from None
