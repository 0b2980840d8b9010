"""Units of running actions: given, changed, taken back, audited; on sandboxes whose size is only remembered."""

from __future__ import annotations

import pytest

from tangram_tasks.errors import InvalidAction, SandboxError
from tests.support.sandboxes import FakeControl, fake_lease, fake_sandbox
from workers.cpu_book import CpuBook
from workers.cpu_grants import CpuGrants
from workers.grant_unheld import GrantUnheld
from workers.live_sandbox import LIGHT_CORES
from workers.upkeep import AUDIT_EVERY, IDLE_EVERY, Upkeep


@pytest.fixture
def book() -> CpuBook:
    return CpuBook(range(4), 4, 1.0)


@pytest.fixture
def grants(book: CpuBook) -> CpuGrants:
    return CpuGrants("n1", book)


@pytest.fixture
def control() -> FakeControl:
    return FakeControl()


def test_a_running_action_grows_and_shrinks(grants: CpuGrants, control: FakeControl) -> None:
    lease = fake_lease(fake_sandbox(control), "a")
    with grants.hold(lease, grant="g-1", units=1, qos="ls"):
        assert (control.size, lease.cpus, lease.max_cpus) == ((1.0, (0,)), 1, 4)
        assert grants.resize("a", 3, "g-1")
        assert (control.size, lease.cpus, lease.max_cpus) == ((3.0, (0, 1, 2)), 3, 4)
        assert grants.resize("a", 2)
        assert (control.size, lease.cpus) == ((2.0, (0, 1)), 2)
        assert grants.resize("a", 2), "asked again, it has them still"
        assert grants.units_of("a") == 2
    assert control.size is None
    assert [units for _, units in lease.usage.units_over_time] == [1, 3, 2]
    assert (grants.stats()["cpu_free"], grants.stats()["resizes"]) == (4, 2)


def test_resizes_are_fenced_by_the_grant(grants: CpuGrants, control: FakeControl) -> None:
    assert not grants.resize("a", 2)
    with grants.hold(fake_lease(fake_sandbox(control), "a"), grant="g-2", units=1, qos="ls"):
        grants.resize("a", 2, "g-1")
        assert grants.units_of("a", "g-1") == 0
        assert control.size == (1.0, (0,))
    assert not grants.resize("a", 2)


def test_a_resize_may_overtake_its_grant(grants: CpuGrants, control: FakeControl) -> None:
    assert grants.resize("a", 3, "g-1")
    assert grants.resize("a", 2, "g-1")
    lease = fake_lease(fake_sandbox(control), "a")
    for grant, units in (("g-1", 2), ("g-2", 4)):
        with grants.hold(lease, grant=grant, units=4, qos="ls"):
            assert (lease.cpus, grants.units_of("a", grant)) == (units, units)


@pytest.mark.parametrize("units", [0, -1, 5])
def test_sizes_it_can_never_have_are_refused(grants: CpuGrants, control: FakeControl, units: int) -> None:
    lease = fake_lease(fake_sandbox(control), "a")
    with (
        grants.hold(lease, grant="g", units=2, qos="ls"),
        pytest.raises(InvalidAction, match=r"action a holds 2 units; it can have 1 to 4"),
    ):
        grants.resize("a", units)
    assert grants.stats()["cpu_free"] == 4


def test_units_of_others_are_not_taken(grants: CpuGrants, control: FakeControl) -> None:
    lease = fake_lease(fake_sandbox(control), "a")
    other = fake_lease(fake_sandbox(FakeControl(), "u"), "b")
    with grants.hold(lease, grant="g", units=1, qos="ls"), grants.hold(other, grant="h", units=2, qos="ls"):
        with pytest.raises(GrantUnheld, match="2 CPU units were granted, 1 of 4 are free"):
            grants.resize("a", 3)
        assert (lease.cpus, control.size) == (1, (1.0, (0,)))


def test_a_size_that_cannot_be_set_changes_nothing(grants: CpuGrants, control: FakeControl) -> None:
    lease = fake_lease(fake_sandbox(control), "a")
    with grants.hold(lease, grant="g", units=2, qos="ls"):
        control.broken = True
        for units in (3, 1):
            with pytest.raises(SandboxError):
                grants.resize("a", units)
        assert (lease.cpus, grants.units_of("a"), grants.stats()["cpu_free"]) == (2, 2, 2)
        assert grants.audit() == 0
    assert grants.stats()["cpu_free"] == 4


def test_the_node_has_the_last_word(grants: CpuGrants, control: FakeControl) -> None:
    lease = fake_lease(fake_sandbox(control), "a")
    with (
        pytest.raises(GrantUnheld, match="node n1 refuses action a: 5 CPU units were granted, 4 of 4 are free"),
        grants.hold(lease, grant="g", units=5, qos="ls"),
    ):
        pass
    assert control.size is None
    assert grants.stats()["grants_refused"] == 1


def test_parallel_actions_of_a_sandbox_hold_their_sum(grants: CpuGrants, control: FakeControl) -> None:
    sandbox = fake_sandbox(control)
    with grants.hold(fake_lease(sandbox, "a"), grant="g", units=1, qos="be"):
        assert control.state() == (1.0, (3,), "be")
        with grants.hold(fake_lease(sandbox, "b"), grant="h", units=2, qos="ls"):
            assert control.state() == (3.0, (0, 1, 3), "ls"), "whoever is latency-sensitive decides"
            assert grants.resize("a", 2)
            assert control.state() == (4.0, (0, 1, 2, 3), "ls")
        assert control.state() == (2.0, (2, 3), "be")


def test_light_actions_hold_no_units(grants: CpuGrants, control: FakeControl) -> None:
    sandbox = fake_sandbox(control)
    with grants.hold(fake_lease(sandbox, "light"), grant="g", units=0, qos="ls"):
        assert control.state() == (LIGHT_CORES, (0, 1, 2, 3), "ls")
        with grants.hold(fake_lease(sandbox, "b"), grant="h", units=1, qos="ls"):
            assert control.state() == (1.0, (0,), "ls")
        with pytest.raises(InvalidAction):
            grants.resize("light", 1)
        assert grants.audit() == 0
    assert (control.size, grants.stats()["cpu_free"]) == (None, 4)


def test_a_light_action_that_ends_takes_nothing_from_others(grants: CpuGrants, control: FakeControl) -> None:
    heavy = fake_lease(fake_sandbox(FakeControl(), "u"), "heavy")
    with grants.hold(heavy, grant="h", units=2, qos="ls"):
        with grants.hold(fake_lease(fake_sandbox(control), "light"), grant="g", units=0, qos="ls"):
            pass
        assert grants.audit() == 0


def test_an_action_that_ends_is_not_resized_any_more(grants: CpuGrants, control: FakeControl) -> None:
    answers = []
    control.on_idle = lambda: answers.append(grants.resize("a", 3))
    with grants.hold(fake_lease(fake_sandbox(control), "a"), grant="g", units=1, qos="ls"):
        pass
    assert answers == [False]
    assert grants.stats()["cpu_free"] == 4


def test_an_audit_finds_units_that_nobody_holds(grants: CpuGrants, book: CpuBook, control: FakeControl) -> None:
    with grants.hold(fake_lease(fake_sandbox(control), "a"), grant="g", units=1, qos="ls"):
        book.take(2)
        assert grants.audit() == 2
        assert grants.audit() == 0
    assert (grants.stats()["cpu_free"], grants.stats()["units_healed"]) == (4, 2)


def test_upkeep_looks_at_busy_sandboxes_more_often_and_at_the_books_now_and_then(
    grants: CpuGrants, book: CpuBook, control: FakeControl
) -> None:
    busy, idle = fake_sandbox(control), fake_sandbox(FakeControl(), "idle")
    idle_control = idle.control
    assert isinstance(idle_control, FakeControl)
    upkeep = Upkeep("n1", lambda: [busy, idle], grants)
    upkeep.stop()
    with grants.hold(fake_lease(busy, "a"), grant="g", units=1, qos="ls"):
        control.drifted = 2
        book.take(1)
        for _ in range(AUDIT_EVERY):
            upkeep.look()
    assert control.looks == AUDIT_EVERY
    assert idle_control.looks == AUDIT_EVERY // IDLE_EVERY
    assert upkeep.drift_total == 2
    assert grants.stats()["units_healed"] == 1


def test_a_removed_sandbox_is_left_alone(control: FakeControl) -> None:
    sandbox = fake_sandbox(control)
    sandbox.remove()
    control.drifted = 1
    assert sandbox.reassert() == 0
