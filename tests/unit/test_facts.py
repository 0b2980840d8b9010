"""Watchers cannot disturb the scheduler."""

from __future__ import annotations

import logging
from typing import Any, cast

import pytest

from scheduler.books import Books
from scheduler.core.admission import Admission
from scheduler.facts import Fact, Stepped
from scheduler.nodes import NodeBook
from tests.support.facts import entry, granted


def test_a_watcher_that_fails_is_logged_and_the_next_one_hears(caplog: pytest.LogCaptureFixture) -> None:
    heard: list[Fact] = []

    def broken(fact: Fact) -> None:
        raise RuntimeError("out of cheese")

    nothing = cast("Any", type("Nothing", (), {"batch": lambda self: None}))()
    books = Books(nothing, Admission(), NodeBook(5), nothing, lambda: 0, watchers=[broken, heard.append])
    with caplog.at_level(logging.ERROR):
        books.tell(Stepped(0.1))
    assert heard == [Stepped(0.1)]
    assert "out of cheese" in caplog.text


def test_the_granted_copy_shows_the_grant_behind_the_arguments() -> None:
    one = entry("a", kwargsrepr="{'x': 1}")
    copy = one.envelope.granted(granted(one, 2).grant)
    assert "{'x': 1} granted cpu=2 on cpu-1" in copy
    assert "granted" not in one.envelope.readmitted(1)
