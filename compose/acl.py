"""Who may do what on the broker: one user for each role, and the operator's.

What a role needs was found by running everything under these rights; what it must not do is tried in the tests.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

Role = Literal["rollout", "scheduler", "worker", "monitor"]
ROLES: tuple[Role, ...] = get_args(Role)
OPERATOR = "operator"

#: Every connection: greet, ask how the server is, run transactions.
_CONNECTION = "+hello +auth +ping +select +client|setname +client|id +info +multi +exec +discard +time"
_SUBSCRIPTION = "+subscribe +unsubscribe +psubscribe +punsubscribe"
_RESULTS = "~celery-task-meta-* ~celery-taskset-meta-* &celery-task-meta-*"
#: kombu's bindings and mailboxes for remote control.
_REMOTE = "~_kombu.binding* ~*.celery.pidbox* &/0.celery.pidbox"
_QUEUES = "~tangram.* ~cpu.* ~gpu.* ~api.*"


def _rollout(prefix: str) -> str:
    """Send actions in, read and forget their results, open and close trajectories, revoke."""
    return (
        f"~tangram.admission* ~{prefix}control ~{prefix}journal.* {_RESULTS} {_REMOTE} {_CONNECTION} {_SUBSCRIPTION} "
        "+lpush +llen +get +mget +set +setex +del +expire +xadd +publish +sadd +smembers +zadd +zcount +zrange "
        "+incr +exists"
    )


def _worker(prefix: str) -> str:
    """Claim and end grants by script, read the node's own lists, store results, publish what follows."""
    names = ("nodes", "grants", "running", "raws", "pending", "ended", "done", "events", "control", "orders.*")
    ours = " ".join(f"~{prefix}{name}" for name in names)
    return (
        f"{ours} ~{prefix}journal.* {_QUEUES} {_RESULTS} {_REMOTE} &celeryev* {_CONNECTION} {_SUBSCRIPTION} "
        "+@read +@write +@scripting +@pubsub -@dangerous -@admin +info -script|flush -script|kill"
    )


def _scheduler(prefix: str) -> str:
    """Everything in the books, all queues, results."""
    return (
        f"~{prefix}* {_QUEUES} {_RESULTS} {_REMOTE} &celeryev* {_CONNECTION} {_SUBSCRIPTION} "
        "+@read +@write +@scripting +@pubsub +@blocking -@dangerous -@admin +info -script|flush -script|kill"
    )


def _monitor(prefix: str) -> str:
    """Look, and change nothing."""
    return f"%R~{prefix}* %R~tangram.* %R~cpu.* %R~gpu.* %R~api.* {_CONNECTION} +@read -@dangerous +info"


_RIGHTS = {"rollout": _rollout, "worker": _worker, "scheduler": _scheduler, "monitor": _monitor}


def user_lines(password: str, users: Mapping[Role, str], prefix: str) -> list[str]:
    """Return the lines of the server's configuration that make the users; none without users.

    Args:
        password: the operator's.
        users: passwords by role.
        prefix: in front of every key of ours.
    """
    if not users:
        return []
    return [
        "user default off",
        f"user {OPERATOR} on >{password} ~* &* +@all",
        *(f"user {role} on >{secret} resetchannels {_RIGHTS[role](prefix)}" for role, secret in users.items()),
    ]
