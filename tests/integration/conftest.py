"""What most tests on a real deployment share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from compose.embedded import Stack
from tangram_tasks import TangramApp
from tests.support.clients import client_of


@pytest.fixture(scope="module")
def app(stack: Stack) -> Iterator[TangramApp]:
    """Yield rollout code's app on the module's own `stack`."""
    with client_of(stack) as app:
        yield app
