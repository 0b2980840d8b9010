"""Random histories of a GPU pool with several nodes, against a ledger that the test keeps itself."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from scheduler.core.admission import Admission
from scheduler.core.events import Cancelled, Decision, Event, NodeJoined, NodeLost, Released, Restored, Submitted, Tick
from tests.support.core import action
from tests.support.gpu_ledger import GpuLedger, Offer

NODES = ["g1", "g2", "g3"]
SERVICES = ["judge", "teacher", "critic"]
SIZES = st.sampled_from([(1,), (1, 2), (1, 2, 4), (2,), (2, 4), (4,), (3,)])


class GpuMachine(RuleBasedStateMachine):
    """Feeds events and keeps the ledger; replays and drains at the end."""

    @initialize(policy=st.sampled_from(["residency", "residency", "paper", "min"]), devices=st.integers(1, 4))
    def start(self, policy: str, devices: int) -> None:
        self.at, self.count, self.ledger = 0, 0, GpuLedger(policy)
        self._fresh_core()
        self.node_joins("g1", devices, SERVICES, draining=False)

    def _make_core(self) -> Admission:
        return Admission(gpu_policy=self.ledger.policy)

    def _fresh_core(self) -> None:
        self.core = self._make_core()
        self.history: list[tuple[Event, list[Decision]]] = []

    def feed(self, event: Event) -> list[Decision]:
        decisions = self.core.handle(event)
        self.core.validate()
        self.history.append((event, decisions))
        return decisions

    def tell(self, event: Event) -> None:
        """Feed an event whose own effect is in the ledger already, and check the answers."""
        self.ledger.take(self.feed(event))
        assert {row.action for row in self.core.waiting()} == self.ledger.waiting.keys()

    @rule(wait=st.integers(0, 3_000))
    def time_passes(self, wait: int) -> None:
        self.at += wait
        self.tell(Tick(self.at))

    @rule()
    def the_clock_rings(self) -> None:
        wake = self.core.next_wake(self.at)
        if wake is not None:
            self.at = wake
            self.tell(Tick(wake))

    @rule(
        name=st.sampled_from(NODES),
        devices=st.integers(1, 4),
        services=st.sets(st.sampled_from(SERVICES), min_size=1).map(sorted),
        draining=st.sampled_from([False, False, True]),
    )
    def node_joins(self, name: str, devices: int, services: list[str], *, draining: bool) -> None:
        self.ledger.nodes[name] = Offer(devices, tuple(services), draining)
        self.tell(self._joined(name))

    def _joined(self, name: str) -> NodeJoined:
        offer = self.ledger.nodes[name]
        return NodeJoined(
            self.at, name, "gpu", {"gpu": offer.devices}, services=offer.services, draining=offer.draining
        )

    @rule(name=st.sampled_from(NODES))
    def node_is_lost(self, name: str) -> None:
        self.ledger.lose(name)
        self.tell(NodeLost(self.at, name))

    @rule(
        sizes=SIZES,
        service=st.sampled_from([None, *SERVICES]),
        duration=st.sampled_from([100, 400, 5_000]),
        count=st.integers(1, 4),
        priority=st.integers(0, 1),
    )
    def actions_are_submitted(
        self, sizes: tuple[int, ...], service: str | None, duration: int, count: int, priority: int
    ) -> None:
        for _ in range(count):
            self.count += 1
            durations = [max(1, duration // size) for size in sizes]
            wanted = action(
                f"a{self.count}",
                key="gpu",
                sizes=sizes,
                durations=durations,
                arrival=self.at,
                priority=priority,
                service=service,
            )
            self.ledger.waiting[wanted.id] = wanted
            self.tell(Submitted(self.at, wanted))

    @rule(data=st.data())
    def action_ends(self, data: st.DataObject) -> None:
        if self.ledger.running:
            self._end(data.draw(st.sampled_from(sorted(self.ledger.running))))

    def _end(self, name: str) -> None:
        del self.ledger.running[name]
        self.tell(Released(self.at, name))

    @rule(data=st.data())
    def action_is_cancelled(self, data: st.DataObject) -> None:
        if self.ledger.waiting:
            name = data.draw(st.sampled_from(sorted(self.ledger.waiting)))
            del self.ledger.waiting[name]
            self.tell(Cancelled(self.at, name))

    @rule(nodes_first=st.booleans())
    def scheduler_restarts(self, *, nodes_first: bool) -> None:
        """Build a new core from what its shell knows."""
        waiting, self.ledger.waiting = sorted(self.ledger.waiting.values(), key=lambda one: one.seq), {}
        self._fresh_core()
        nodes: list[Event] = [self._joined(name) for name in self.ledger.nodes]
        held: list[Event] = [Restored(self.at, one, node, units) for one, node, units in self.ledger.running.values()]
        for event in nodes + held if nodes_first else held + nodes:
            assert self.feed(event) == []
        for one in waiting:
            self.ledger.waiting[one.id] = one
            self.tell(Submitted(self.at, one))

    def teardown(self) -> None:
        if not hasattr(self, "core"):
            return
        for name in NODES:
            self.node_joins(name, 4, SERVICES, draining=name != "g2")  # all that is left has to move to one node
        for _ in range(1000):
            if self.ledger.running:
                self._end(min(self.ledger.running))
            elif self.ledger.waiting:
                assert self.core.next_wake(self.at) is not None, "somebody waits for nothing that could happen"
                self.the_clock_rings()
        assert not self.ledger.waiting
        assert all(amount == 0 for row in self.core.holdings() for amount in row.granted.values())
        again = self._make_core()
        for event, decisions in self.history:
            assert again.handle(event) == decisions, f"{event} is answered differently in a replay"


TestGpuMachine = GpuMachine.TestCase
