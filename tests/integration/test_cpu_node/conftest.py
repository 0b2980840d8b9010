"""One CPU node per backend, and a fresh trajectory on it per test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from compose.image import build_base_image
from tangram_tasks.errors import ConfigurationError
from tests.conftest import unavailable
from tests.support.cpu_nodes import Trajectory, trajectory_on
from workers.cpu_node import CpuNode
from workers.sandbox_backend import BackendName
from workers.sandbox_policy import DEFAULT_POLICY, SandboxPolicy

DOCKER = pytest.param("docker", marks=pytest.mark.docker)
NodeMaker = Callable[..., CpuNode]


@pytest.fixture(scope="session")
def base_image(docker_engine: str) -> str:
    """Build the image that the tests' containers run; returns its id."""
    return build_base_image()


@pytest.fixture(scope="session")
def make_node(request: pytest.FixtureRequest) -> NodeMaker:
    """Return a maker of nodes; the test is skipped (fails with CI=true) where their backend does not work."""

    def make(
        backend: BackendName,
        state_dir: Path,
        name: str = "n1",
        cpu_unit: float = 1.0,
        policy: SandboxPolicy = DEFAULT_POLICY,
    ) -> CpuNode:
        if backend == "docker":
            request.getfixturevalue("base_image")
        try:
            return CpuNode(
                node=f"{name}-{backend}",
                owner="tests",
                state_dir=state_dir,
                cpu_unit=cpu_unit,
                backend=backend,
                unsafe_local=True,
                policy=policy,
            )
        except ConfigurationError as error:
            if backend == "bubblewrap":
                unavailable(f"no bubblewrap: {error}")
            raise

    return make


@pytest.fixture(scope="session", params=[DOCKER, "bubblewrap", "local"])
def node(
    request: pytest.FixtureRequest, make_node: NodeMaker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[CpuNode]:
    """A node of every backend."""
    made = make_node(request.param, tmp_path_factory.mktemp("state"))
    yield made
    made.stop()


@pytest.fixture
def trajectory(node: CpuNode) -> Iterator[Trajectory]:
    """A sandbox of every backend."""
    with trajectory_on(node) as opened:
        yield opened


@pytest.fixture(scope="session", params=[DOCKER, "bubblewrap"])
def isolating_node(
    request: pytest.FixtureRequest, make_node: NodeMaker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[CpuNode]:
    """A node of every backend that isolates."""
    made = make_node(request.param, tmp_path_factory.mktemp("state"), "isolating")
    yield made
    made.stop()


@pytest.fixture
def isolated(isolating_node: CpuNode) -> Iterator[Trajectory]:
    """A sandbox of every backend that isolates."""
    with trajectory_on(isolating_node, memory=400) as opened:
        yield opened
