"""Events that a core takes in together, as its shell passes them, against the test's own ledger."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.core.admission import Admission
from scheduler.core.events import Cancelled, Event, NodeJoined, Released, Resized, Submitted, Tick
from scheduler.core.quota import Quota
from tests.support.core import action
from tests.support.ledger import Ledger
from tests.support.promises import Provider

CAPACITY = {"cpu": 6, "memory": 100}
QUOTA = Quota(concurrency=2)
POLICIES = ["live", "paper", "paper_wait", "min", "fixed:2", "utilisation", "wait_or_start"]
KINDS = st.sampled_from(["cpu", "cpu", "cpu", "gpu", "api:chat"])
STEPS = st.lists(st.lists(st.sampled_from(["arrive", "arrive", "end", "cancel", "answer"]), max_size=8), max_size=8)


def told(data: st.DataObject, ledger: Ledger, step: str, at: int, count: int) -> Event:
    """Return an event, whose own effect is in the ledger then; a Tick if there is nobody to whom it could happen."""
    if step == "arrive":
        key, sizes = data.draw(KINDS), data.draw(st.sampled_from([(1,), (1, 2), (1, 2, 4), (2,)]))
        memory = data.draw(st.sampled_from([0, 30])) if key == "cpu" else 0
        malleable = data.draw(st.booleans()) and len(sizes) > 1
        sizes = sizes if key == "cpu" else (1,)
        one = action(f"a{count}", key=key, sizes=sizes, arrival=at, memory=memory, malleable=malleable)
        ledger.waiting[one.id] = one
        ledger.submitted.add(one.id)
        return Submitted(at, one)
    if step == "end" and ledger.running:
        name = data.draw(st.sampled_from(sorted(ledger.running)))
        ledger.end(name)
        return Released(at, name)
    if step == "cancel" and ledger.waiting:
        name = data.draw(st.sampled_from(sorted(ledger.waiting)))
        del ledger.waiting[name]
        ledger.ended.add(name)
        return Cancelled(at, name)
    if step == "answer" and ledger.orders:
        name = data.draw(st.sampled_from(sorted(ledger.orders)))
        return Resized(at, name, ledger.answer(name, done=True))
    return Tick(at)


@settings(deadline=None, max_examples=150)
@given(st.data(), STEPS, st.sampled_from(POLICIES))
def test_no_batch_gives_too_much_and_nobody_waits_for_ever(
    data: st.DataObject, steps: list[list[str]], policy: str
) -> None:
    ledger = Ledger(providers={"api:chat": Provider(QUOTA)}, policies={"cpu": policy, "gpu": "residency", "api": "min"})
    core, at, count = Admission(policy), 0, 0
    ledger.join("c1", "cpu", CAPACITY)
    ledger.join("g1", "gpu", {"gpu": 2})
    ledger.join("x1", "api", {}, ["api:chat"])
    first: list[Event] = [
        NodeJoined(0, "c1", "cpu", CAPACITY),
        NodeJoined(0, "g1", "gpu", {"gpu": 2}),
        NodeJoined(0, "x1", "api", {}, {"chat": QUOTA}),
    ]
    assert core.handle_all(first) == []
    for batch in steps:
        at += data.draw(st.integers(0, 300))
        events = []
        for step in batch:
            count += 1
            events.append(told(data, ledger, step, at, count))
        ledger.take(core.handle_all(events), at=at)
        core.validate()
    while ledger.running or ledger.orders:
        at += 1
        events = [Resized(at, name, ledger.answer(name, done=True)) for name in list(ledger.orders)]
        for name in list(ledger.running):
            ledger.end(name)
            events.append(Released(at, name))
        ledger.take(core.handle_all(events), at=at)
    assert not ledger.waiting
    assert all(amount == 0 for row in core.holdings() for amount in row.granted.values())
