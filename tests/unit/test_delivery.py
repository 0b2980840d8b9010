"""Delivery: nothing is given before the node has it back."""

from __future__ import annotations

from scheduler.core.delivery import Delivery
from scheduler.core.events import Grant, Resize


def two_running() -> Delivery:
    """Return a node of 8 units on which a1 holds 4 and a2 holds 2."""
    delivery = Delivery()
    delivery.settled("a1", 4)
    delivery.settled("a2", 2)
    return delivery


def test_a_start_that_fits_goes_at_once() -> None:
    delivery = two_running()
    delivery.start("a3", "n", 2)
    assert delivery.ready(8) == [Grant("a3", "n", 2)]
    assert not delivery.pending


def test_a_grow_counts_on_the_node_from_the_order_on() -> None:
    delivery = two_running()
    delivery.resize("a1", "n", 2)
    delivery.resize("a2", "n", 4)
    assert delivery.ready(8) == [Resize("a1", "n", 2), Resize("a2", "n", 4)]
    delivery.start("a3", "n", 2)
    assert delivery.ready(8) == [], "4 + 4 units are on the node until a1 has given up two"
    assert delivery.confirm("a2", 4)
    assert delivery.ready(8) == []
    assert delivery.confirm("a1", 2)
    assert delivery.ready(8) == [Grant("a3", "n", 2)]


def test_a_small_start_does_not_wait_for_a_large_one() -> None:
    delivery = two_running()
    delivery.resize("a1", "n", 1)
    delivery.start("a3", "n", 4)
    delivery.start("a4", "n", 1)
    assert delivery.ready(8) == [Resize("a1", "n", 1), Grant("a4", "n", 1)]
    delivery.confirm("a1", 1)
    assert delivery.ready(8) == [Grant("a3", "n", 4)]


def test_one_order_is_in_flight_and_the_last_wish_counts() -> None:
    delivery = two_running()
    for units in (2, 1, 3):
        delivery.resize("a1", "n", units)
        delivery.ready(8)
    assert delivery.confirm("a1", 2)
    assert delivery.ready(8) == [Resize("a1", "n", 3)]


def test_a_wish_that_is_taken_back_before_the_answer_is_ordered_back() -> None:
    delivery = two_running()
    delivery.resize("a1", "n", 2)
    delivery.ready(8)
    delivery.resize("a1", "n", 4)
    assert delivery.ready(8) == []
    delivery.confirm("a1", 2)
    assert delivery.ready(8) == [Resize("a1", "n", 4)]


def test_the_node_has_the_last_word() -> None:
    delivery = two_running()
    delivery.resize("a1", "n", 2)
    delivery.ready(8)
    assert not delivery.confirm("a1", 4)
    delivery.validate({"a1": 4, "a2": 2})


def test_who_ends_while_an_order_is_in_flight_leaves_all_it_had() -> None:
    delivery = two_running()
    delivery.resize("a1", "n", 2)
    delivery.start("a3", "n", 4)
    assert delivery.ready(8) == [Resize("a1", "n", 2)]
    delivery.drop("a1")
    assert delivery.ready(8) == [Grant("a3", "n", 4)]


def test_an_instant_node_needs_no_answer() -> None:
    delivery = Delivery(instant=True)
    delivery.settled("a1", 8)
    delivery.resize("a1", "n", 4)
    delivery.start("a2", "n", 4)
    assert delivery.ready(8) == [Resize("a1", "n", 4), Grant("a2", "n", 4)]
    assert not delivery.pending


def test_a_grow_waits_for_the_units_that_another_gives_back() -> None:
    delivery = Delivery()
    delivery.settled("a", 4)
    delivery.settled("b", 1)
    delivery.resize("a", "n", 1)
    delivery.resize("b", "n", 4)
    assert delivery.ready(5) == [Resize("a", "n", 1)]
    assert delivery.ready(5) == []
    assert delivery.confirm("a", 1)
    assert delivery.ready(5) == [Resize("b", "n", 4)]
    assert delivery.confirm("b", 4)
    assert delivery.ready(5) == []
    assert not delivery.pending
