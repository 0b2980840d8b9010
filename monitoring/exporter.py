"""Serves metrics to Prometheus over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from prometheus_client import CollectorRegistry, start_http_server

from tangram_tasks.errors import ConfigurationError


@contextmanager
def serve_metrics(address: str, registry: CollectorRegistry) -> Iterator[None]:
    """Serve `/metrics` in a thread until the end of the block.

    Args:
        address: HOST:PORT, as TANGRAM_METRICS has it.
        registry: what to show.

    Raises:
        ConfigurationError: the address cannot be had.
    """
    host, _, port = address.rpartition(":")
    start: Any = start_http_server
    try:
        server, thread = start(int(port), addr=host.strip("[]"), registry=registry)
    except (OSError, OverflowError) as error:
        raise ConfigurationError(f"TANGRAM_METRICS={address}: cannot listen there: {error}") from None
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
