"""A sandbox's network may change; what arrives late or twice does no harm, and what fails is tried again."""

from __future__ import annotations

import pytest

from scheduler.books import Books
from scheduler.control import set_network
from scheduler.recovery import recover
from scheduler.residency import take_over
from scheduler.stored import Snapshot, TrajectoryRecord
from tangram_tasks.control_messages import OpenTrajectory
from tangram_tasks.egress import ChangeEgress, Egress, SetNetwork
from tangram_tasks.errors import InvalidAction, SandboxError
from tests.support.books import GENERATION, NODE, Leader
from tests.support.sandboxes import FakeControl, fake_sandbox
from tests.support.trajectories import trajectory
from workers.bubblewrap_sandbox import connect
from workers.cpu_book import CpuBook
from workers.cpu_grants import CpuGrants
from workers.upkeep import IDLE_EVERY, Upkeep


class Wall:
    """Remembers which networks it was let into, and may refuse one."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.refused = ""

    def __call__(self, network: str) -> None:
        if network == self.refused:
            raise SandboxError(f"no network {network}")
        self.seen.append(network)


def test_only_the_latest_change_counts() -> None:
    wall = Wall()
    sandbox = fake_sandbox(FakeControl(), connect=wall)
    for turn, network in ((1, "bridge"), (3, "none"), (2, "bridge"), (3, "none")):
        sandbox.change_egress(Egress(network=network, turn=turn))
    assert wall.seen == ["bridge", "none"]


def test_a_change_that_failed_is_tried_again() -> None:
    wall = Wall()
    wall.refused = "lab"
    sandbox = fake_sandbox(FakeControl(), connect=wall)
    for _ in range(2):
        with pytest.raises(SandboxError, match="no network lab"):
            sandbox.change_egress(Egress(network="lab", turn=1))
    wall.refused = ""
    sandbox.change_egress(Egress(network="lab", turn=1))
    assert wall.seen == ["lab"]


def test_upkeep_makes_a_change_that_failed_for_what_runs_without_a_new_action() -> None:
    wall = Wall()
    sandbox = fake_sandbox(FakeControl(), connect=wall)
    upkeep = Upkeep("n", lambda: [sandbox], CpuGrants("n", CpuBook([0], 1, 1.0)))
    upkeep.stop()
    wall.refused = "none"
    with pytest.raises(SandboxError):
        sandbox.change_egress(Egress(network="none", turn=2))
    look_everywhere(upkeep)
    with pytest.raises(SandboxError):
        sandbox.change_egress(Egress(network="bridge", turn=1))  # in a grant that was on its way
    wall.refused = ""
    look_everywhere(upkeep)
    look_everywhere(upkeep)
    assert wall.seen == ["none"]


def look_everywhere(upkeep: Upkeep) -> None:
    for _ in range(IDLE_EVERY):
        upkeep.look()


def books_with(record: TrajectoryRecord) -> Books:
    books = Leader().books
    books.trajectories["t"] = record
    return books


ORDER = OpenTrajectory(trajectory="t", image="i", memory=64, expires_at=1e12)


def test_before_it_is_placed_it_is_simply_made_with_the_other_network() -> None:
    books = books_with(TrajectoryRecord(order=ORDER))
    set_network(books, SetNetwork(trajectory="t", network="bridge"))
    assert books.trajectories["t"].order.network == "bridge"
    assert books.trajectories["t"].egress is None


def test_later_changes_have_later_turns() -> None:
    books = books_with(TrajectoryRecord(order=ORDER, node="n"))
    for network in ("bridge", "none"):
        set_network(books, SetNetwork(trajectory="t", network=network))
    assert books.trajectories["t"].egress == Egress(network="none", turn=2)
    set_network(books, SetNetwork(trajectory="unknown", network="none"))


async def test_a_new_leader_obeys_what_the_last_one_left_before_it_admits_anything() -> None:
    leader = Leader()
    leader.ledger.kept = Snapshot({}, {}, {}, {"t": TrajectoryRecord(order=ORDER)}, {}, {})
    wishes = [SetNetwork(trajectory="t", network=network) for network in ("bridge", "none")]
    leader.ledger.backlog = [(f"{number}-0", wish.model_dump_json().encode()) for number, wish in enumerate(wishes)]
    await recover(leader.books)
    assert leader.books.trajectories["t"].order.network == "none"
    assert leader.written.read == ["0-0", "1-0"], "the first one must not come again after the second"


async def test_what_a_leader_had_done_already_is_not_done_twice_on_the_way_to_the_last_word() -> None:
    leader = Leader()
    record = TrajectoryRecord(
        order=ORDER, node=NODE, generation=GENERATION, ready_at=1.0, egress=Egress(network="none", turn=2)
    )
    leader.ledger.announced = dict(leader.books.nodes.alive)
    leader.ledger.kept = Snapshot({}, {}, {}, {"t": record}, {}, {})
    wishes = [SetNetwork(trajectory="t", network=network) for network in ("bridge", "none")]
    leader.ledger.backlog = [(f"{number}-0", wish.model_dump_json().encode()) for number, wish in enumerate(wishes)]
    await recover(leader.books)
    told = [order.egress.network for order in leader.written.take() if isinstance(order, ChangeEgress)]
    assert told == ["none"], "it must not reach the bridge for a moment"
    assert leader.written.read == ["0-0", "1-0"]


def test_a_node_that_comes_back_hears_again_what_its_sandboxes_may_reach() -> None:
    """The order may have gone to its dead process, and what earlier actions left running goes on."""
    leader = Leader()
    egress = Egress(network="none", turn=2)
    leader.books.trajectories["t"] = TrajectoryRecord(order=ORDER, node=NODE, egress=egress)
    back = leader.books.nodes.alive[NODE].model_copy(update={"generation": "g2", "trajectories": ("t",)})
    take_over(leader.books, back)
    assert leader.written.take() == [ChangeEgress(trajectory="t", egress=egress)]


def test_bubblewrap_says_that_it_cannot() -> None:
    connect("sandbox s", "none")
    with pytest.raises(SandboxError, match="sandbox s: bubblewrap has no network 'bridge'; use Docker"):
        connect("sandbox s", "bridge")


def test_a_trajectory_must_be_open_to_change() -> None:
    with pytest.raises(InvalidAction, match="is not open: say network='none' where it is made"):
        trajectory().set_network("none")


@pytest.mark.parametrize(
    ("network", "why"), [("host", "no sandbox gets the host's network"), ("no net", "is no network")]
)
def test_what_is_no_network_is_refused_at_the_call(network: str, why: str) -> None:
    with pytest.raises(InvalidAction, match=why):
        trajectory().set_network(network)
