"""The names in Redis."""

from __future__ import annotations

#: The list that every action is published to.
ADMISSION_QUEUE = "tangram.admission"


class Keys:
    """Names in Redis.

    The lists that Celery reads (`tangram.admission`, `cpu.NODE`, ...) have no prefix, because kombu names them:
    deployments that share a server need databases of their own.

    Args:
        prefix: in front of every key that is ours.
    """

    def __init__(self, prefix: str = "tangram:") -> None:
        self.prefix = prefix
        self.epoch = prefix + "epoch"  # int: the leader's fencing token
        self.leader = prefix + "leader"  # string with TTL: who leads
        self.seq = prefix + "seq"  # int: arrival order
        self.pending = prefix + "pending"  # hash seq -> raw message
        self.grants = prefix + "grants"  # hash grant id -> GrantRecord
        self.raws = prefix + "raws"  # hash grant id -> raw message, to re-admit it
        self.running = prefix + "running"  # hash grant id -> worker that claimed it
        self.done = prefix + "done"  # stream of DoneRecord
        self.events = prefix + "events"  # stream of NodeEvent
        self.control = prefix + "control"  # stream of ControlMessage
        self.nodes = prefix + "nodes"  # hash node -> NodeRecord
        self.trajectories = prefix + "trajectories"  # hash trajectory -> TrajectoryRecord
        self.cancelled = prefix + "cancelled"  # sorted set task id -> expiry
        self.counters = prefix + "counters"  # hash name -> how often
        self.paused = prefix + "paused"  # exists while admission is paused
        self.estimates = prefix + "estimates"  # hash JSON list [task, bucket] -> what was observed of it
        self.jobs = prefix + "jobs"  # hash job -> JobRecord
        self.quotas = prefix + "quotas"  # hash provider -> QuotaRecord that was set by hand
        self.spent = prefix + "spent"  # hash provider -> what was spent of its limits
        self.dead = prefix + "dead"  # list of messages that could not be admitted
        self.ended = (
            prefix + "ended"
        )  # sorted set message id -> expiry: ends that the broker forgot and nodes told again
        self.quarantine = prefix + "quarantine"  # hash node -> QuarantineRecord
        self.broker_run = prefix + "broker_run"  # string: the run of the broker in which somebody led last

    def journal(self, trajectory: str) -> str:
        """String that stands while a trajectory with a journal was opened once."""
        return f"{self.prefix}journal.{trajectory}"

    def orders(self, node: str) -> str:
        """List of NodeOrder for one node."""
        return f"{self.prefix}orders.{node}"

    def answer(self, reply: str) -> str:
        """List of the one answer to a question or an order; it expires soon."""
        return f"{self.prefix}answer.{reply}"

    def cached(self, provider: str, place: int) -> str:
        """One of the places for a provider's answers; with TTL."""
        return f"{self.prefix}cached.{provider}.{place}"


def node_queue(kind: str, node: str) -> str:
    """Return the Celery queue of one node."""
    return f"{kind}.{node}"


def result_key(action: str) -> str:
    """Return the key, and the channel, of an action's result: Celery's."""
    return f"celery-task-meta-{action}"
