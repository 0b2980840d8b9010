"""Getting images before anybody asks for them."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from workers.docker_engine import engine_errors

if TYPE_CHECKING:
    from docker import DockerClient

logger = logging.getLogger(__name__)

SAY_EVERY = 5.0  # s between two lines about a pull


def prefetch(engine: DockerClient, images: Iterable[str]) -> list[str]:
    """Pull images that are missing; progress goes to the log. Return those that could not be had."""
    return [image for image in images if not _is_there(engine, image) and not _pull(engine, image)]


def _is_there(engine: DockerClient, image: str) -> bool:
    from docker.errors import ImageNotFound

    try:
        engine.images.get(image)
    except ImageNotFound:
        return False
    logger.info("image %s is there", image)
    return True


def _pull(engine: DockerClient, image: str) -> bool:
    """Pull one image. A node without it still serves others, so a failure is only told."""
    name, _, tag = image.rpartition(":")
    repository, tag = (name, tag) if name and "/" not in tag else (image, "latest")
    began = said = time.monotonic()
    layers: dict[str, str] = {}
    try:
        for row in engine.api.pull(repository, tag, stream=True, decode=True):
            if "error" in row:
                logger.warning("image %s cannot be pulled, trajectories with it will fail: %s", image, row["error"])
                return False
            layers[row.get("id", "")] = row.get("status", "")
            if time.monotonic() - said > SAY_EVERY:
                said = time.monotonic()
                done = sum(status in ("Pull complete", "Already exists") for status in layers.values())
                logger.info("image %s: %d of %d layers after %.0f s", image, done, len(layers), said - began)
    except engine_errors() as error:
        logger.warning("image %s cannot be pulled, trajectories with it will fail: %s", image, error)
        return False
    logger.info("image %s was pulled in %.0f s", image, time.monotonic() - began)
    return True
