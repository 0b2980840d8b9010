"""A broker connection that stands still is the pseudo-worker's trouble alone."""

from __future__ import annotations

import asyncio
import threading
from typing import Any, cast

import pytest

from monitoring.admission_worker import AdmissionWorker
from monitoring.inquiry import Inquiry
from scheduler.facts import Leads, Resigned, Waits
from tests.support.facts import ended, entry, granted


class StuckApp:
    """An app whose connection is never made."""

    def __init__(self) -> None:
        self.asked, self.free = threading.Event(), threading.Event()

    def connection_for_write(self) -> Any:
        self.asked.set()
        self.free.wait(20)
        raise OSError("no broker")


async def test_facts_are_heard_and_the_end_does_not_wait_for_it() -> None:
    app = StuckApp()
    worker = AdmissionWorker(cast("Any", app))
    worker(Leads(cast("Any", None)))
    try:
        assert app.asked.wait(5)
        for number in range(1000):
            one = entry(str(number))
            worker(Waits(one))
            worker(granted(one, 1))
            worker(ended(one))
        worker(Resigned())
        worker.join(0.0)
    finally:
        app.free.set()
        worker.join(5.0)
    assert "admission-worker" not in [thread.name for thread in threading.enumerate()]


async def test_a_question_that_fails_fails_for_the_asker() -> None:
    inquiry = Inquiry(cast("Any", {"waiting": 3}))
    answers: list[Any] = []

    def ask() -> None:
        answers.append(inquiry.ask(lambda books: cast("Any", books)["waiting"]))
        with pytest.raises(KeyError):
            inquiry.ask(lambda books: cast("Any", books)["nothing"])
        answers.append("asked")

    await asyncio.to_thread(ask)
    assert answers == [3, "asked"]
