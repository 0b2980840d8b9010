"""The Docker engine: reaching it, and what goes wrong with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tangram_tasks.errors import ConfigurationError, SandboxError

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.models.containers import Container

_ENGINE_TIME = 60  # s for one call to the engine


def connect() -> DockerClient:
    """Return a client of the Docker engine. Raises ConfigurationError saying what is missing."""
    try:
        import docker
    except ImportError:
        raise ConfigurationError("the docker package is missing: install tangram-rl[docker]") from None
    try:
        engine = docker.from_env(timeout=_ENGINE_TIME)
        engine.ping()
    except engine_errors() as error:
        raise ConfigurationError(
            f"the Docker engine does not answer ({error}): start it, or set DOCKER_HOST, or join its group"
        ) from None
    return engine


def engine_errors() -> tuple[type[Exception], ...]:
    """Return what the docker package raises: its own errors, and those of its connection when the engine stops."""
    from docker.errors import DockerException
    from requests import RequestException

    return DockerException, RequestException


def remove_container(container: Container) -> None:
    """Remove a container with its volumes. Idempotent. Raises SandboxError."""
    from docker.errors import NotFound

    try:
        container.remove(force=True, v=True)
    except NotFound:
        return
    except engine_errors() as error:
        if "already in progress" not in str(error):
            raise SandboxError(f"container {container.short_id} cannot be removed: {error}") from None


def is_running(container: Container) -> bool:
    """Ask the engine whether it runs. Raises SandboxError if the engine does not answer."""
    try:
        container.reload()
    except engine_errors() as error:
        raise SandboxError(f"container {container.short_id} cannot be looked at: {error}") from None
    return bool(container.attrs["State"]["Running"])
