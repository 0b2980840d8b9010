"""Answers take a bounded part of a step: however many questions, the scheduler keeps its lead."""

from __future__ import annotations

import pytest

from scheduler import answers
from scheduler.answers import answer
from tangram_tasks.control_messages import ExplainAction
from tests.support.books import Leader


@pytest.mark.parametrize(("budget", "steps"), [(0.0, 3), (3600.0, 1)])
def test_what_does_not_fit_a_step_is_answered_in_the_next(
    monkeypatch: pytest.MonkeyPatch, budget: float, steps: int
) -> None:
    monkeypatch.setattr(answers, "BUDGET", budget)
    leader, answered = Leader(), list[str]()
    monkeypatch.setattr(leader.books.batch, "answer", lambda question, *_: answered.append(question))
    asked = [f"{number:032x}" for number in range(3)]
    leader.books.questions.extend(ExplainAction(action="a", question=question) for question in asked)
    for _ in range(steps - 1):
        answer(leader.books)
        assert leader.books.questions
    answer(leader.books)
    assert answered == asked
    assert not leader.books.questions
