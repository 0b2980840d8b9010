"""Images that an operator names are there when a node joins, or its log says why not."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from compose.image import BASE_IMAGE
from tests.integration.test_cpu_node.conftest import NodeMaker
from workers.sandbox_policy import SandboxPolicy

pytestmark = pytest.mark.docker


def test_prefetch_says_what_is_there_and_what_cannot_be_had(
    make_node: NodeMaker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    missing = "127.0.0.1:1/nobody/nothing:v1"
    node = make_node("docker", tmp_path, "images", policy=SandboxPolicy(images=(BASE_IMAGE, missing)))
    try:
        with caplog.at_level(logging.INFO, logger="workers"):
            node.prefetch()
        assert f"image {BASE_IMAGE} is there" in caplog.text
        assert f"image {missing} cannot be pulled, trajectories with it will fail" in caplog.text
    finally:
        node.stop()
