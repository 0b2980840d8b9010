"""Messages that never become a request: their callers hear of it first, then their grants end."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from redis.exceptions import ConnectionError as BrokerGone

from tangram_tasks.app import TangramApp
from tangram_tasks.wire import GRANT_HEADER, GrantHeader
from workers.runtime import Runtime
from workers.unread import Unread

GRANT = GrantHeader(id="1-1-x", node="n", units=2, granted_at=1.0)


class Seen:
    """A backend and a runtime in one, that notes what is asked of it in which order."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.away = False

    def mark_as_failure(self, action: str, error: Exception) -> None:
        if self.away:
            raise BrokerGone
        self.asked.append(f"{action} fails: {error}")

    def end(self, grant: GrantHeader, action: str, *, requeue: bool) -> None:
        self.asked.append(f"{action} ends {grant.id}")


@pytest.fixture
def seen() -> Seen:
    return Seen()


@pytest.fixture
def unread(seen: Seen) -> Unread:
    return Unread(cast(TangramApp, SimpleNamespace(backend=seen)), cast(Runtime, seen))


def message(**headers: Any) -> Any:
    return SimpleNamespace(headers={"id": "a", GRANT_HEADER: GRANT.model_dump(), **headers})


def test_a_rejected_one_fails_before_its_grant_ends(unread: Unread, seen: Seen) -> None:
    unread._rejected(message(), ValueError("odd"))
    assert seen.asked == ["a fails: action a: its worker could not read it: odd", "a ends 1-1-x"]


def test_its_grant_is_kept_if_nobody_could_be_told(unread: Unread, seen: Seen) -> None:
    seen.away = True
    unread._rejected(message(), None)
    assert seen.asked == [], "its start lease brings it back"


def test_of_an_unknown_task_celery_has_told(unread: Unread, seen: Seen) -> None:
    unread._unknown(message())
    assert seen.asked == ["a ends 1-1-x"]


@pytest.mark.parametrize("headers", [{GRANT_HEADER: None}, {GRANT_HEADER: {"id": 1}}])
def test_what_has_no_grant_is_left_alone(unread: Unread, seen: Seen, headers: dict[str, Any]) -> None:
    unread._rejected(message(**headers), None)
    unread._unknown(message(**headers))
    unread._unknown(SimpleNamespace(headers=None))
    assert seen.asked == []
