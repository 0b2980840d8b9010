"""Random histories of policy "live" on CPU nodes that answer late or refuse, against the test's own ledger.

The machine of `test_core_machine` does everything; this one does little else than resize, and so much more of that.
"""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from scheduler.core.admission import Admission
from scheduler.core.events import Cancelled, Decision, Event, NodeJoined, NodeLost, Released, Resized, Submitted, Tick
from tests.support.core import action
from tests.support.ledger import Ledger

SIZES = st.sampled_from([(1,), (1, 2, 4), (1, 2, 4, 8), (2, 4), (3,)])
NODES = {"c1": {"cpu": 8, "memory": 100}, "c2": {"cpu": 5, "memory": 60}}


class LiveMachine(RuleBasedStateMachine):
    """Feeds events and keeps the ledger; replays and drains at the end."""

    @initialize(instant=st.booleans(), weight=st.integers(1, 3))
    def start(self, instant: bool, weight: int) -> None:
        self.instant, self.weights, self.at, self.count = instant, {"b": weight}, 0, 0
        self.core = self._make_core()
        self.history: list[tuple[Event, list[Decision]]] = []
        self.ledger = Ledger(instant=instant, policies={"cpu": "live", "gpu": "min", "api": "min"})
        self._join("c1")

    def _make_core(self) -> Admission:
        return Admission("live", instant_resize=self.instant, weights=self.weights)

    def tell(self, event: Event) -> None:
        decisions = self.core.handle(event)
        self.core.validate()
        self.history.append((event, decisions))
        self.ledger.take(decisions, at=self.at)

    def _join(self, name: str) -> None:
        self.ledger.join(name, "cpu", NODES[name])
        self.tell(NodeJoined(self.at, name, "cpu", NODES[name]))

    @rule()
    def second_node_joins(self) -> None:
        self._join("c2")

    @rule()
    def second_node_is_lost(self) -> None:
        self.ledger.lose("c2")
        self.tell(NodeLost(self.at, "c2"))

    @rule(wait=st.sampled_from([1, 100, 300, 11_000]))
    def time_passes(self, wait: int) -> None:
        self.at += wait
        self.tell(Tick(self.at))

    @rule(
        data=st.data(),
        sizes=SIZES,
        malleable=st.booleans(),
        memory=st.sampled_from([0, 0, 40]),
        job=st.sampled_from("ab"),
    )
    def action_is_submitted(
        self, data: st.DataObject, sizes: tuple[int, ...], malleable: bool, memory: int, job: str
    ) -> None:
        self.count += 1
        base = data.draw(st.integers(100, 5000))
        wanted = action(
            f"a{self.count}",
            sizes=sizes,
            durations=[max(1, base // size + 20) for size in sizes],
            memory=memory,
            arrival=self.at,
            malleable=malleable,
            job=job,
        )
        self.ledger.waiting[wanted.id] = wanted
        self.ledger.submitted.add(wanted.id)
        self.tell(Submitted(self.at, wanted))

    @rule(data=st.data())
    def action_ends(self, data: st.DataObject) -> None:
        if self.ledger.running:
            name = data.draw(st.sampled_from(sorted(self.ledger.running)))
            self.ledger.end(name)
            self.tell(Released(self.at, name))

    @rule(data=st.data())
    def action_is_cancelled(self, data: st.DataObject) -> None:
        if self.ledger.waiting:
            name = data.draw(st.sampled_from(sorted(self.ledger.waiting)))
            del self.ledger.waiting[name]
            self.ledger.ended.add(name)
            self.tell(Cancelled(self.at, name))

    @rule(data=st.data(), done=st.sampled_from([True, True, True, True, False]))
    def a_node_answers(self, data: st.DataObject, done: bool) -> None:
        if self.ledger.orders:
            name = data.draw(st.sampled_from(sorted(self.ledger.orders)))
            self.tell(Resized(self.at, name, self.ledger.answer(name, done=done)))

    @rule(data=st.data())
    def a_node_says_again_what_it_said(self, data: st.DataObject) -> None:
        quiet = sorted(self.ledger.running.keys() - self.ledger.orders.keys())
        if quiet:
            name = data.draw(st.sampled_from(quiet))
            self.tell(Resized(self.at, name, self.ledger.running[name][2]))

    def teardown(self) -> None:
        if not hasattr(self, "ledger"):
            return
        ledger = self.ledger
        for _ in range(1000):
            if ledger.orders:
                name = min(ledger.orders)
                self.tell(Resized(self.at, name, ledger.answer(name, done=True)))
            elif ledger.running:
                name = min(ledger.running)
                ledger.end(name)
                self.tell(Released(self.at, name))
            else:
                break
        assert not ledger.waiting, f"{sorted(ledger.waiting)} wait although nothing runs"
        assert ledger.ended == ledger.submitted
        assert all(amount == 0 for row in self.core.holdings() for amount in row.granted.values())
        again = self._make_core()
        for event, decisions in self.history:
            assert again.handle(event) == decisions, f"{event} is answered differently in a replay"


TestLiveMachine = LiveMachine.TestCase
