"""A leader's books that never reach a server; what they would write is kept for a look."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from typing import Any, cast

from scheduler.books import Books
from scheduler.core.admission import Admission
from scheduler.decisions import act
from scheduler.intake import admit
from scheduler.ledger import Batch, Ledger
from scheduler.nodes import NodeBook, joined_event
from scheduler.stored import Snapshot
from tangram_tasks import Amdahl, TangramApp
from tangram_tasks.grants import GrantRecord
from tangram_tasks.keys import Keys
from tangram_tasks.orders import NodeOrder
from tangram_tasks.publisher import EnvelopeProducer
from tangram_tasks.wire import NodeRecord

NODE, GENERATION = "n", "g1"
_NOBODY = cast(Any, None)


@dataclass
class Written:
    """What was written: orders to nodes, counters, stream entries that need no second reading, grants that ended."""

    orders: list[NodeOrder] = field(default_factory=list)
    counted: list[str] = field(default_factory=list)
    read: list[str] = field(default_factory=list)
    ungranted: list[str] = field(default_factory=list)

    def take(self) -> list[NodeOrder]:
        """Return the orders since the last time."""
        orders, self.orders = self.orders, []
        return orders


class KeptLedger(Ledger):
    """A ledger whose batches write into `written`, and which says that these grants run."""

    def __init__(self) -> None:
        super().__init__(_NOBODY, Keys(), 1)
        self.written = Written()
        self.claimed: set[str] = set()
        self.time = 0.0
        self.announced: dict[str, NodeRecord] = {}
        self.kept = Snapshot({}, {}, {}, {}, {}, {})
        self.backlog: list[tuple[str, bytes]] = []

    def batch(self) -> Batch:
        return KeptBatch(self)

    async def paused(self) -> bool:
        return False

    async def snapshot(self) -> Snapshot:
        return self.kept

    async def nodes(self) -> tuple[dict[str, NodeRecord], float]:
        return self.announced, 0.0

    async def now(self) -> float:
        return self.time

    async def broker_run(self) -> str:
        return ""

    async def control_backlog(self) -> list[tuple[str, bytes]]:
        return self.backlog

    async def running(self, grants: list[str]) -> set[str]:
        return self.claimed & set(grants)


class KeptBatch(Batch):
    """See KeptLedger."""

    def __init__(self, ledger: KeptLedger) -> None:
        super().__init__(ledger)
        self._written, self._answers = ledger.written, 0

    def order(self, node: str, order: NodeOrder) -> None:
        self._written.orders.append(order)

    def count(self, name: str, by: int = 1) -> None:
        self._written.counted.append(name)

    def read(self, stream: str, entries: Iterable[str]) -> None:
        self._written.read += entries

    def grant(self, grant: str, record: GrantRecord, queue: str, copy: str) -> None:
        self._answers += 1

    def ungrant(self, grant: str, seq: int, raw: str = "", *, only_unstarted: bool = False) -> None:
        self._written.ungranted.append(grant)
        self._answers += 1

    async def commit(self) -> list[int]:
        return [1] * self._answers


class Clock:
    """Says what it is told to; ms."""

    now = 1

    def __call__(self) -> int:
        return self.now


@dataclass
class Leader:
    """A leader with one CPU node of four units, policy `live`."""

    clock: Clock = field(default_factory=Clock)
    ledger: KeptLedger = field(default_factory=KeptLedger)
    books: Books = field(init=False)

    def __post_init__(self) -> None:
        self.books = Books(
            ledger=self.ledger,
            core=Admission("live"),
            nodes=NodeBook(5.0),
            outcomes=_NOBODY,
            clock=self.clock,
        )
        node = NodeRecord(node=NODE, kind="cpu", generation=GENERATION, capacity={"cpu": 4, "memory": 100})
        self.books.nodes.alive[NODE] = node
        self.books.feed(joined_event(node, 1))

    @property
    def written(self) -> Written:
        return self.ledger.written

    async def admit(self, seq: int, task: str) -> None:
        """Take in a message: of task "wide", which can be resized from 1 to 4, or "narrow", which takes 2."""
        await admit(self.books, seq, message(task), arrival=seq)
        await self.act()

    async def act(self) -> None:
        await act(self.books)

    def grant_of(self, seq: int) -> str:
        """Return the grant of the action of this message; empty if it holds none."""
        entries = self.books.entries.by_action.values()
        return next((entry.grant or "" for entry in entries if entry.seq == seq), "")


def message(task: str) -> str:
    """Return a message of one of the tasks that `Leader.admit` names."""
    return _messages()[task]


@cache  # Celery shares tasks between apps, and complains of a second one of the same name
def _messages() -> dict[str, str]:
    app = TangramApp("unit", broker="redis://127.0.0.1:1/0", set_as_current=False)

    @app.action(name="unit.wide", cpu=(1, 2, 4), elasticity=Amdahl(serial=0.1), malleable=True, duration=60.0)
    def wide() -> None: ...

    @app.action(name="unit.narrow", cpu=2, duration=60.0)
    def narrow() -> None: ...

    found = {}
    for name, task in (("wide", wide), ("narrow", narrow)):
        producer = EnvelopeProducer()
        task.apply_async((), producer=producer)
        found[name] = producer.envelope
    return found
