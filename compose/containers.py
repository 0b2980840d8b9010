"""Containers of a deployment, found by their label."""

from __future__ import annotations

import contextlib
import importlib.util

OWNER_LABEL = "tangram.owner"
_TIMEOUT = 30  # seconds for one call to the engine


def remove_containers(owner: str) -> int:
    """Remove every container of this owner with its volumes.

    Args:
        owner: value of the label `tangram.owner`.

    Returns:
        How many were removed; 0 where there is no Docker.
    """
    if importlib.util.find_spec("docker") is None:
        return 0
    import docker
    from docker.errors import APIError, DockerException, NotFound

    try:
        client = docker.from_env(timeout=_TIMEOUT)
    except DockerException:  # no engine answers, so it holds nothing of ours that we could remove
        return 0
    with contextlib.closing(client):
        removed = 0
        for container in client.containers.list(
            all=True, filters={"label": f"{OWNER_LABEL}={owner}"}, ignore_removed=True
        ):
            with contextlib.suppress(NotFound, APIError):  # somebody else is removing it
                container.remove(force=True, v=True)
                removed += 1
        return removed
