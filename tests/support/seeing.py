"""A small busy deployment to look at, and pages read over HTTP."""

from __future__ import annotations

import base64
import contextlib
import os
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from typing import Any

from compose.stack_config import ApiNodeConfig, CpuNodeConfig, ProviderConfig, StackConfig
from tests.waiting import wait_until


def busy_config(**changes: Any) -> StackConfig:
    """Return a deployment with two API calls in flight at most, and a CPU node without isolation."""
    provider = ProviderConfig(base_url="http://127.0.0.1:9", concurrency=2)
    fields: dict[str, Any] = {
        "persistent": False,
        "api": (ApiNodeConfig(name="api-1", providers={"noop": provider}),),
        "cpu": (CpuNodeConfig(name="cpu-1", cores=2, backend="local"),),
        "imports": ("tests.support.actions",),
        "unsafe_local": True,
    }
    return StackConfig(**{**fields, **changes})


def free_port() -> int:
    """Return a port of 127.0.0.1 that nobody has."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def fetch(url: str, *, login: str = "", method: str = "GET", headers: dict[str, str] | None = None) -> bytes:
    """Return what stands at a URL. Raises urllib.error.HTTPError for anything but success."""
    request = urllib.request.Request(url, method=method, headers=headers or {})
    if login:
        request.add_header("Authorization", "Basic " + base64.b64encode(login.encode()).decode())
    with urllib.request.urlopen(request, timeout=10) as answer:
        content: bytes = answer.read()
    return content


@contextlib.contextmanager
def tangram(broker: str, *arguments: str, ready: str) -> Iterator[subprocess.Popen[str]]:
    """Run a `tangram` command that serves; yields when the URL `ready` answers."""
    command = [sys.executable, "-m", "compose.cli", *arguments]
    environment = {**os.environ, "TANGRAM_BROKER_URL": broker}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            wait_until(lambda: _answers(process, ready), f"{ready} answers", 30)
            yield process
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()


def _answers(process: subprocess.Popen[str], url: str) -> bool:
    assert process.poll() is None, f"it ended with {process.returncode}"
    try:
        fetch(url)
    except OSError:  # HTTPError is one, too
        return False
    return True
