"""The gate of policy "live" against its rules written down literally, and against brute force."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.core.events import Action
from scheduler.core.gate import EVALUATIONS, Gate, Occupant
from tests.support.core import action

NOW = 1000
Item = tuple[tuple[int, ...], tuple[int, ...]]


@st.composite
def curves(draw: st.DrawFn) -> Item:
    sizes = tuple(sorted(draw(st.sets(st.integers(1, 6), min_size=1, max_size=3))))
    durations = tuple(draw(st.lists(st.integers(1, 40), min_size=len(sizes), max_size=len(sizes))))
    return sizes, durations


@st.composite
def gates(draw: st.DrawFn) -> Gate:
    queue = []
    for place in range(draw(st.integers(1, 5))):
        sizes, durations = draw(curves())
        queue.append(
            action(
                f"a{place}",
                sizes=sizes,
                durations=durations,
                arrival=draw(st.integers(0, NOW)),
                malleable=draw(st.booleans()),
            )
        )
    split = draw(st.integers(0, len(queue)))
    occupants = [Occupant(*curve) for curve in draw(st.lists(curves(), max_size=3))]
    budget = sum(one.sizes[0] for one in queue[:split]) + draw(st.integers(0, 8))
    fixed = draw(st.lists(st.tuples(st.integers(NOW + 1, NOW + 40), st.integers(1, 3)), max_size=3))
    return Gate(NOW, budget, fixed, occupants, queue[:split], queue[split:])


def grown(items: Sequence[Item], left: int) -> tuple[list[int], int]:
    """Return each item's rank, and the units left over, by the words of R4."""
    ranks, growing = [0] * len(items), set(range(len(items)))
    while growing:
        steps = {}
        for item in growing:
            (sizes, table), rank = items[item], ranks[item]
            if rank + 1 < len(sizes) and table[rank] > table[rank + 1]:
                steps[item] = Fraction(table[rank] - table[rank + 1], sizes[rank + 1] - sizes[rank])
        if not steps:
            break
        best = max(steps, key=lambda item: (steps[item], -item))
        units = items[best][0][ranks[best] + 1] - items[best][0][ranks[best]]
        if units <= left:
            ranks[best] += 1
            left -= units
        else:
            growing.discard(best)
    return ranks, left


def literal(gate: Gate, occupants: Sequence[Item], kept: Sequence[Action], waiting: Sequence[Action]) -> int | None:
    """Return the objective by the words of R4 and R5; None is infinite."""
    items = [*occupants, *((one.sizes, one.durations) for one in kept)]
    ranks, left = grown(items, gate.budget - sum(one.sizes[0] for one in kept))
    holds = [
        *gate.fixed,
        *((NOW + table[rank], sizes[rank]) for rank, (sizes, table) in zip(ranks, items, strict=True)),
    ]
    total = sum(table[rank] for rank, (_, table) in zip(ranks, items, strict=True))
    total += sum(NOW - one.arrival for one in kept)
    clock, started = NOW, False
    for one in waiting:
        while not started or left < one.sizes[0]:
            if not holds:
                return None
            end, units = min(holds)
            holds.remove((end, units))
            clock, left, started = max(clock, end), left + units, True
        left -= one.sizes[0]
        holds.append((clock + one.durations[0], one.sizes[0]))
        total += clock + one.durations[0] - one.arrival
    return total


@settings(deadline=None)
@given(gates(), st.data())
def test_every_value_is_the_literal_one(gate: Gate, data: st.DataObject) -> None:
    occupants = list(zip(gate._sizes, gate._tables, strict=True))[: gate._occupants]
    stiff = [one for one in gate.candidates if len(one.sizes) > 1 and not one.malleable]
    for dropped, value in enumerate(gate.values()):
        gone = {one.id for one in stiff[len(stiff) - dropped :]}
        kept = [one for one in gate.candidates if one.id not in gone]
        waiting = [one for one in gate.candidates if one.id in gone] + list(gate.later)
        assert value == literal(gate, occupants, kept, waiting)


@settings(deadline=None)
@given(gates())
def test_the_decision_is_the_best_of_what_was_compared(gate: Gate) -> None:
    dropped, units = gate.decide()
    values = gate.values()
    stiff = [one for one in gate.candidates if len(one.sizes) > 1 and not one.malleable]
    assert [one.id for one in stiff[len(stiff) - len(dropped) :]] == [one.id for one in stiff if one.id in dropped]
    assert set(units) == {one.id for one in stiff} - dropped
    assert len(values) <= EVALUATIONS
    finite = [value for value in values if value is not None]
    if finite:
        assert values[len(dropped)] == min(finite)
    by_id = {one.id: one for one in gate.candidates}
    assert all(given in by_id[name].sizes for name, given in units.items())
    smallest = sum(one.sizes[0] for one in gate.candidates if one.id not in dropped and one.id not in units)
    assert smallest + sum(units.values()) <= gate.budget


@settings(deadline=None)
@given(gates())
def test_an_idle_domain_starts_something(gate: Gate) -> None:
    dropped, _ = gate.decide()
    if not gate.fixed and not gate._occupants and gate.candidates:
        assert len(dropped) < len(gate.candidates)
