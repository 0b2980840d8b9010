"""Random histories of an Admission against a ledger that the test keeps itself."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from scheduler.core.admission import Admission
from scheduler.core.events import (
    Cancelled,
    CloseSandbox,
    Decision,
    Event,
    NodeJoined,
    NodeLost,
    Released,
    Resized,
    Restored,
    SandboxReady,
    Submitted,
    Tick,
    TrajectoryClosed,
    TrajectoryOpened,
    TrajectoryRestored,
)
from tests.support.core import action
from tests.support.ledger import Ledger
from tests.support.promises import Provider, Sandbox
from tests.support.strategies import KEYS, POLICIES, QUOTAS, SERVICES, SIZES


class AdmissionMachine(RuleBasedStateMachine):
    """Feeds events and keeps the ledger; replays and drains at the end."""

    @initialize(
        depth=st.sampled_from([0, 2, 16]),
        chosen=st.fixed_dictionaries(POLICIES),
        instant=st.booleans(),
        cores=st.integers(0, 8),
        apis=st.sampled_from([set(), set(QUOTAS)]),
    )
    def start(self, depth: int, chosen: dict[str, str], instant: bool, cores: int, apis: set[str]) -> None:
        self.depth, self.at, self.count = depth, 0, 0
        providers = {f"api:{name}": Provider(quota, Fraction(quota.burst)) for name, quota in QUOTAS.items()}
        self.ledger = Ledger(providers=providers, instant=instant, policies=chosen)
        self._fresh_core()
        if cores:
            self.cpu_node_joins("c1", cores, 300)
        if apis:
            self.api_node_joins("x1", apis)

    def _make_core(self) -> Admission:
        chosen = self.ledger.policies
        return Admission(
            chosen["cpu"],
            self.depth,
            gpu_policy=chosen["gpu"],
            api_policy=chosen["api"],
            instant_resize=self.ledger.instant,
            weights={"b": 2},
        )

    def _fresh_core(self) -> None:
        self.core = self._make_core()
        self.history: list[tuple[Event, list[Decision]]] = []

    @property
    def timed(self) -> bool:  # whether some policy may look again just because time passes
        return not {"live", "residency"}.isdisjoint(self.ledger.policies.values())

    def feed(self, event: Event) -> list[Decision]:
        decisions = self.core.handle(event)
        self.core.validate()
        self.history.append((event, decisions))
        return decisions

    def tell(self, event: Event) -> None:
        """Feed an event whose own effect is in the ledger already, and check the answers."""
        self.ledger.take(self.feed(event), at=self.at)
        wake, latest = self.core.next_wake(self.at), self.ledger.next_wake()
        if self.timed:
            assert latest is None or (wake is not None and wake <= latest)
        else:
            assert wake == latest

    # -- time

    @rule(wait=st.integers(0, 400))
    def time_passes(self, wait: int) -> None:
        self.at += wait
        self.tell(Tick(self.at))

    @rule()
    def the_clock_rings(self) -> None:
        wake = self.core.next_wake(self.at)
        if wake is not None:
            if wake > self.at:
                assert self.feed(Tick(wake - 1)) == [], f"something changed before the wake at {wake} ms"
            self.at = wake
            self.tell(Tick(wake))
            assert self.timed or self.history[-1][1], f"nothing changed at the wake at {wake} ms"

    # -- nodes

    @rule(name=st.sampled_from(["c1", "c2", "c3"]), cpu=st.integers(1, 8), memory=st.sampled_from([100, 300]))
    def cpu_node_joins(self, name: str, cpu: int, memory: int) -> None:
        self.ledger.join(name, "cpu", {"cpu": cpu, "memory": memory})
        self.tell(self._joined(name))

    @rule(
        name=st.sampled_from(["g1", "g2"]),
        gpu=st.integers(1, 4),
        services=st.sets(st.sampled_from(SERVICES)).map(sorted),
    )
    def gpu_node_joins(self, name: str, gpu: int, services: list[str]) -> None:
        self.ledger.join(name, "gpu", {"gpu": gpu}, services=services)
        self.tell(self._joined(name))

    @rule(name=st.sampled_from(["x1", "x2"]), offers=st.sets(st.sampled_from(sorted(QUOTAS))))
    def api_node_joins(self, name: str, offers: set[str]) -> None:
        self.ledger.join(name, "api", {}, {f"api:{provider}" for provider in offers})
        self.tell(self._joined(name))

    @rule(name=st.sampled_from(["c1", "c2", "g1", "x1", "unknown"]))
    def node_is_lost(self, name: str) -> None:
        self.ledger.lose(name)
        self.tell(NodeLost(self.at, name))

    def _joined(self, name: str) -> NodeJoined:
        quotas = {key: quota for key, quota in QUOTAS.items() if f"api:{key}" in self.ledger.offers.get(name, set())}
        books = self.ledger
        return NodeJoined(self.at, name, books.kinds[name], books.capacity[name], quotas, books.services[name])

    # -- trajectories

    @rule(memory=st.sampled_from([40, 90, 200, 400]))
    def trajectory_opens(self, memory: int) -> None:
        self.count += 1
        self.ledger.sandboxes[f"t{self.count}"] = Sandbox(memory)
        self.tell(TrajectoryOpened(self.at, f"t{self.count}", memory))

    @rule(data=st.data())
    def sandbox_is_ready(self, data: st.DataObject) -> None:
        placed = sorted(name for name, sandbox in self.ledger.sandboxes.items() if sandbox.node is not None)
        if placed:
            self._ready(data.draw(st.sampled_from(placed)))

    def _ready(self, name: str) -> None:
        self.ledger.sandboxes[name].ready = True
        self.tell(SandboxReady(self.at, name))

    @rule(data=st.data())
    def trajectory_closes(self, data: st.DataObject) -> None:
        if self.ledger.sandboxes:
            self._close(data.draw(st.sampled_from(sorted(self.ledger.sandboxes))))

    def _close(self, name: str) -> None:
        node = self.ledger.sandboxes.pop(name).node
        decisions = self.feed(TrajectoryClosed(self.at, name))
        orders = [row for row in decisions if isinstance(row, CloseSandbox)]
        assert orders == ([] if node is None else [CloseSandbox(name, node)])
        self.ledger.take([row for row in decisions if row not in orders], at=self.at)

    # -- actions

    @rule(
        data=st.data(),
        key=st.sampled_from(KEYS),
        count=st.integers(1, 5),
        nature=st.sampled_from(["plain", "malleable", "malleable", "light"]),
    )
    def actions_are_submitted(self, data: st.DataObject, key: str, count: int, nature: str) -> None:
        homes = [None, "nowhere", *sorted(self.ledger.sandboxes)] if key == "cpu" else [None]
        home, light = data.draw(st.sampled_from(homes)), nature == "light" and key == "cpu"
        for _ in range(count):
            self.count += 1
            sizes = data.draw(SIZES)[: 1 if light else None]
            patience = data.draw(st.sampled_from([None, None, None, 1, 300]))
            wanted = action(
                f"a{self.count}",
                key=key,
                sizes=sizes,
                durations=[max(1, data.draw(st.integers(100, 900)) // size) for size in sizes],
                memory=data.draw(st.sampled_from([0, 0, 30, 150])) if key == "cpu" else 0,
                arrival=self.at,
                trajectory=home,
                deadline=None if patience is None else self.at + patience,
                priority=data.draw(st.integers(0, 1)),
                malleable=nature == "malleable",
                job=data.draw(st.sampled_from(["", "b"])),
                light=light,
                service=data.draw(st.sampled_from([None, *SERVICES])) if key == "gpu" else None,
            )
            self.ledger.waiting[wanted.id] = wanted
            self.ledger.submitted.add(wanted.id)
            self.tell(Submitted(self.at, wanted))

    @rule(data=st.data())
    def a_known_action_is_submitted_again(self, data: st.DataObject) -> None:
        known = {**self.ledger.waiting, **{name: row[0] for name, row in self.ledger.running.items()}}
        if known:
            again = known[data.draw(st.sampled_from(sorted(known)))]
            assert self.feed(Submitted(self.at, again)) == []

    @rule(data=st.data())
    def action_ends(self, data: st.DataObject) -> None:
        if self.ledger.running:
            self._release(data.draw(st.sampled_from(sorted(self.ledger.running))))

    def _release(self, name: str) -> None:
        self.ledger.end(name)
        self.tell(Released(self.at, name))

    @rule(data=st.data(), done=st.sampled_from([True, True, True, False]))
    def a_node_answers(self, data: st.DataObject, done: bool) -> None:
        if self.ledger.orders:
            self._answer(data.draw(st.sampled_from(sorted(self.ledger.orders))), done=done)

    def _answer(self, name: str, *, done: bool) -> None:
        units = self.ledger.answer(name, done=done)
        self.tell(Resized(self.at, name, units))

    @rule(data=st.data())
    def action_is_cancelled(self, data: st.DataObject) -> None:
        if self.ledger.submitted:
            name = data.draw(st.sampled_from(sorted(self.ledger.submitted)))
            if self.ledger.waiting.pop(name, None) is not None:
                self.ledger.ended.add(name)
            self.tell(Cancelled(self.at, name))

    # -- the scheduler's own end

    @rule(nodes_first=st.booleans())
    def scheduler_restarts(self, nodes_first: bool) -> None:
        """Build a new core from what its shell knows; the quotas' buckets start full again."""
        ledger, at = self.ledger, self.at
        for provider in ledger.providers.values():
            provider.refill(at)
        waiting, ledger.waiting = sorted(ledger.waiting.values(), key=lambda one: one.seq), {}
        self._fresh_core()
        ledger.orders, ledger.refused = {}, set()
        nodes: list[Event] = [self._joined(name) for name in ledger.kinds]
        held: list[Event] = [
            TrajectoryRestored(at, name, sandbox.memory, sandbox.node, sandbox.ready)
            for name, sandbox in ledger.sandboxes.items()
            if sandbox.node is not None
        ]
        held += [Restored(at, one, node, units) for one, node, units in ledger.running.values()]
        for event in nodes + held if nodes_first else held + nodes:
            assert self.feed(event) == []
        unplaced = {name: sandbox for name, sandbox in ledger.sandboxes.items() if sandbox.node is None}
        for name, sandbox in unplaced.items():
            assert self.feed(TrajectoryOpened(at, name, sandbox.memory)) == []
        for one in waiting:
            ledger.waiting[one.id] = one
            self.tell(Submitted(at, one))

    def teardown(self) -> None:
        if not hasattr(self, "core"):
            return
        self._drain()
        again = self._make_core()
        for event, decisions in self.history:
            assert again.handle(event) == decisions, f"{event} is answered differently in a replay"

    def _drain(self) -> None:
        """Serve everybody, and check that nothing is left over."""
        ledger = self.ledger
        self.cpu_node_joins("c1", 8, 300)
        self.gpu_node_joins("g1", 4, SERVICES)
        self.api_node_joins("x1", set(QUOTAS))
        for _ in range(1000):
            if not ledger.waiting and not ledger.running:
                break
            self._one_step_on()
        for name in list(ledger.sandboxes):
            self._close(name)
        assert not ledger.waiting
        assert self.core.waiting() == []
        assert all(amount == 0 for row in self.core.holdings() for amount in row.granted.values())
        assert ledger.ended == ledger.submitted

    def _one_step_on(self) -> None:
        asleep = [name for name, one in self.ledger.sandboxes.items() if one.node is not None and not one.ready]
        if asleep:
            self._ready(asleep[0])
        elif self.ledger.orders:
            self._answer(min(self.ledger.orders), done=True)
        elif self.ledger.running:
            self._release(min(self.ledger.running))
        elif self.core.next_wake(self.at) is not None:
            self.the_clock_rings()
        else:
            assert self.ledger.sandboxes, f"{sorted(self.ledger.waiting)} wait for nothing that could happen"
            self._close(min(self.ledger.sandboxes))


TestAdmissionMachine = AdmissionMachine.TestCase
