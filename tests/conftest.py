"""Services that tests need. With CI=true a missing one fails the test; elsewhere it is skipped with the reason."""

from __future__ import annotations

import contextlib
import gc
import os
import random
import signal
import warnings
from collections.abc import Iterator
from typing import NoReturn

import docker
import pytest
import redis
from docker.errors import DockerException

from compose.broker import throwaway_broker
from tangram_tasks.errors import TangramError


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let a failed random run be repeated."""
    parser.addoption("--seed", type=int, default=None, help="Seed of tests that draw when and what to kill.")
    parser.addoption("--messages", type=int, default=2000, help="Damaged messages that the fuzz test sends.")


def pytest_configure(config: pytest.Config) -> None:
    """Choose the seed once, so that the header can name it, and let the processes under test hear Ctrl-C."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # inherited from a shell that started us in the background
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if config.option.seed is None:
        config.option.seed = random.SystemRandom().randrange(2**32)


def pytest_report_header(config: pytest.Config) -> str:
    """Say how to repeat the run."""
    return f"seed: {config.option.seed} (repeat with --seed)"


def unavailable(reason: str) -> NoReturn:
    """Skip the test, or fail it with CI=true."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"{reason}, and CI=true wants everything to be tested")
    pytest.skip(reason)


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> random.Random:
    """Return the generator of a test that draws; the same one again with the same --seed."""
    return random.Random(f"{request.config.option.seed} {request.node.nodeid}")


@pytest.fixture(scope="session")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the URL of a private server with a password; all tests of a session share it."""
    try:
        with throwaway_broker(tmp_path_factory.mktemp("redis")) as url:
            yield url
    except TangramError as error:
        unavailable(f"no Redis: {error}")


@pytest.fixture
def clean_redis_url(redis_url: str) -> str:
    """Return the same URL, with every database emptied."""
    with redis.Redis.from_url(redis_url) as client:
        client.flushall()
    return redis_url


@pytest.fixture(scope="session")
def docker_engine() -> str:
    """Return the version of a Docker engine that answers."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # the client leaves its socket open when nothing answers
        version, reason = _ask_docker()
        gc.collect()
    if version is None:
        unavailable(f"no Docker engine answers: {reason}")
    return version


def _ask_docker() -> tuple[str | None, str]:
    try:
        with contextlib.closing(docker.from_env(timeout=10)) as client:
            return str(client.version()["Version"]), ""
    except DockerException as error:
        return None, str(error)
