"""Orders to resize whose answers are late, lost, doubled or of another time."""

from __future__ import annotations

import pytest

from scheduler.resizing import PATIENCE, TRIES, ask_again, resized
from tangram_tasks.orders import ResizeAction
from tangram_tasks.wire import ActionResized
from tests.support.books import NODE, Leader


@pytest.fixture
async def leader() -> Leader:
    """Its one action holds all four units and was asked for two of them, for another one that is held back."""
    leader = Leader()
    await leader.admit(1, "wide")
    await leader.admit(2, "narrow")
    return leader


def order_of(leader: Leader) -> ResizeAction:
    (order,) = leader.written.take()
    assert isinstance(order, ResizeAction)
    return order


def answer(order: ResizeAction, units: int | None = None, *, ok: bool = True) -> ActionResized:
    return ActionResized(
        node=NODE, action=order.action, grant=order.grant, units=units or order.units, ok=ok, turn=order.turn
    )


async def test_units_are_handed_on_once_the_node_has_answered(leader: Leader) -> None:
    order = order_of(leader)
    assert order.units == 2
    assert not leader.grant_of(2)
    resized(leader.books, answer(order))
    await leader.act()
    assert leader.grant_of(2)
    leader.clock.now += 10 * PATIENCE
    ask_again(leader.books)
    assert leader.written.take() == []


async def test_an_order_without_an_answer_is_sent_again(leader: Leader) -> None:
    order = order_of(leader)
    ask_again(leader.books)
    assert leader.written.take() == [], "not at once"
    leader.clock.now += PATIENCE
    ask_again(leader.books)
    assert order_of(leader) == order
    resized(leader.books, answer(order))
    await leader.act()
    assert leader.grant_of(2)
    resized(leader.books, answer(order))
    await leader.act()
    assert leader.written.take() == [], "the second answer to it says nothing new"


async def test_a_node_that_never_answers_is_asked_a_few_times(leader: Leader) -> None:
    for _ in range(2 * TRIES):
        leader.clock.now += PATIENCE
        ask_again(leader.books)
        await leader.act()
    sent = leader.written.take()
    assert len(sent) == TRIES
    assert len({(order.grant, order.turn) for order in sent if isinstance(order, ResizeAction)}) == 1
    assert not leader.books.unanswered
    assert leader.written.counted == ["resizes_unanswered"]
    leader.books.core.validate()
    assert dict(leader.books.core.holdings()[0].granted)["cpu"] == 6, "four are held, and two are promised"
    late = next(order for order in sent if isinstance(order, ResizeAction))
    resized(leader.books, answer(late))
    await leader.act()
    assert leader.grant_of(2), "it did so after all"


async def test_an_answer_to_an_earlier_order_is_void(leader: Leader) -> None:
    order = order_of(leader)
    resized(leader.books, answer(order.model_copy(update={"turn": order.turn - 1}), 4))
    assert leader.books.entries.by_grant[order.grant].record.units == 4  # type: ignore[union-attr]
    assert order.grant in leader.books.unanswered
    assert not leader.books.events


async def test_an_action_that_ended_meanwhile_is_not_asked_again(leader: Leader) -> None:
    order = order_of(leader)
    leader.books.entries.forget(leader.books.entries.by_grant[order.grant])
    resized(leader.books, answer(order))
    assert not leader.books.unanswered
    assert not leader.books.events


async def test_nor_is_one_whose_answer_never_came(leader: Leader) -> None:
    order = order_of(leader)
    leader.books.entries.forget(leader.books.entries.by_grant[order.grant])
    leader.clock.now += PATIENCE
    ask_again(leader.books)
    assert leader.written.take() == []
    assert not leader.books.unanswered
