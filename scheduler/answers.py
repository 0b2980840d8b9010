"""Answers to clients' questions, at the end of a step: the core has then heard of everything that arrived before."""

from __future__ import annotations

import time

from scheduler.books import Books
from scheduler.entries import Entry
from tangram_tasks.control_messages import ExplainAction
from tangram_tasks.questions import ActionExplained

#: Answers that nobody fetches are gone after so many seconds.
KEPT = 60
#: Questions are answered for so many seconds per step; the others must wait for the next one.
BUDGET = 0.02


def answer(books: Books) -> None:
    """Answer questions, in the order in which they came, at least one."""
    until = time.monotonic() + BUDGET
    while books.questions:
        question = books.questions.popleft()
        books.batch.answer(question.question, explained(books, question).model_dump_json(), KEPT)
        if time.monotonic() >= until:
            return


def explained(books: Books, question: ExplainAction) -> ActionExplained:
    """Return where an action is, and why it waits if it does."""
    name = question.action
    entry = books.entries.by_action.get(name)
    if entry is None:
        return ActionExplained(action=name, state="unknown", reason="it has ended, or has not arrived yet")
    if entry.record is not None:
        place, units = entry.record.node, entry.record.units
        return ActionExplained(
            action=name, state="granted", reason=f"it holds a grant on {place}", place=place, units=units
        )
    return _waiting(books, name, entry)


def _waiting(books: Books, name: str, entry: Entry) -> ActionExplained:
    why = books.core.explain(name)
    if why is None:
        return ActionExplained(action=name, state="eta", reason="it is held back until its eta or its next try")
    return ActionExplained(
        action=name,
        state="waiting",
        reason=why.reason,
        place=why.domain,
        position=why.position,
        demand=dict(why.demand),
        free={place: dict(amounts) for place, amounts in why.free.items()},
        passed_over=why.passed_over,
        start_s=None if why.start is None else why.start / 1000,
        act_s=None if why.act is None else why.act / 1000,
        confidence=books.estimates.confidence(entry.envelope.task, entry.envelope.header.spec.bucket),
    )
